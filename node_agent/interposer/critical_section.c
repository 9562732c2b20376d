#include "critical_section.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "account.h"
#include "allocations.h"
#include "graph_memory.h"
#include "launch_gate.h"
#include "pools.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* pthread_atfork itself is in libpthread before glibc 2.34 and in no shared library after. This is what it calls in libc, in all versions. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object);

enum { WIPED = 0, RESETTING = 1, READY = 2 };

/* A word of its own page that the kernel sets to 0 in a child with a copy of the memory (Linux 4.14), however it was forked. A
 * child that shares the memory (vfork, threads) sees READY. On older kernels a fork handler alone does it. */
static _Atomic(atomic_int *) fork_mark;

static void reset_in_child(void)
{
    /* Another thread of the parent may have held a lock when it forked, so the state is dropped without it. */
    account_reset_in_child();
    allocations_reset_in_child();
    pools_reset_in_child();
    graph_memory_reset_in_child();
    launch_gate_reset_in_child();
}

static uint64_t block_signals(void)
{
    /* The kernel's call, because glibc's leaves out the signals by which it cancels threads. */
    uint64_t all = ~(uint64_t)0, before = 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    return before;
}

static void restore_signals(uint64_t mask)
{
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask);
}

static void resume_in_child(atomic_int *mark)
{
    /* Or a handler could wait here for the code that it has interrupted. */
    uint64_t signal_mask = block_signals();
    int expected = WIPED;
    if (atomic_compare_exchange_strong(mark, &expected, RESETTING)) {
        reset_in_child();
        atomic_store(mark, READY);
    }
    while (atomic_load(mark) != READY)
        sched_yield();
    restore_signals(signal_mask);
}

static void after_fork_in_child(void)
{
    int error_number = errno;
    atomic_int *mark = atomic_load(&fork_mark);
    atomic_store(mark, WIPED);
    resume_in_child(mark);
    errno = error_number;
}

static atomic_int *make_fork_mark(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static atomic_int without_memory = READY;
    atomic_int *mark = memory != MAP_FAILED ? memory : &without_memory;
    atomic_store(mark, READY);
    if (memory != MAP_FAILED)
        madvise(memory, page, MADV_WIPEONFORK);
    atomic_int *expected = NULL;
    if (!atomic_compare_exchange_strong(&fork_mark, &expected, mark)) {
        if (memory != MAP_FAILED)
            munmap(memory, page);
        return expected;
    }
    __register_atfork(NULL, NULL, after_fork_in_child, NULL);
    return mark;
}

void check_for_fork(void)
{
    int error_number = errno;
    atomic_int *mark = atomic_load(&fork_mark);
    if (mark == NULL)
        mark = make_fork_mark();
    if (atomic_load(mark) != READY)
        resume_in_child(mark);
    errno = error_number;
}

struct critical_section enter(pthread_mutex_t *lock)
{
    struct critical_section section = {.error_number = errno};
    check_for_fork();
    section.signal_mask = block_signals();
    pthread_mutex_lock(lock);
    return section;
}

void leave(pthread_mutex_t *lock, struct critical_section section)
{
    pthread_mutex_unlock(lock);
    restore_signals(section.signal_mask);
    errno = section.error_number;
}
