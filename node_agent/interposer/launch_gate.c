#include "launch_gate.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent_socket.h"
#include "captures.h"
#include "critical_section.h"
#include "launch_contexts.h"
#include "launch_turns.h"

enum { NEW = 0, OPEN = 1, CLOSED = 2 };
enum { SHARDS = 16, PAUSE_NANOSECONDS = 20 * 1000 };

/* Launches that have entered and left. Threads have shards of their own, because a shared word would cost each of them more than the gate. */
static struct shard {
    _Alignas(64) atomic_ullong entered;
    atomic_ullong left;
} shards[SHARDS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int gate = NEW;
static atomic_int waiting; /* a launch waits; cleared when the gate opens, and set again by those that still wait */

static __thread volatile int depth __attribute__((tls_model("initial-exec"))); /* of launches inside a launch, of a signal handler for example */

static struct shard *own_shard(void)
{
    return &shards[((uintptr_t)pthread_self() >> 12) % SHARDS];
}

static void futex_wait(atomic_int *word, int value, long long nanoseconds)
{
    struct timespec limit = {nanoseconds / NANOSECONDS, nanoseconds % NANOSECONDS};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &limit, NULL, 0);
}

static void futex_wake(atomic_int *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void start_taking_turns(void)
{
    struct critical_section section = enter(&lock);
    if (atomic_load(&gate) == NEW) {
        atomic_store(&gate, CLOSED);
        if (!launch_turns_start())
            launch_gate_open();
    }
    leave(&lock, section);
}

static void wait_for_turn(void)
{
    int error_number = errno;
    check_for_fork();
    if (atomic_load(&gate) == NEW)
        start_taking_turns();
    while (atomic_load(&gate) == CLOSED) {
        /* Set again each second: nothing tells the gate of a waiting thread that a handler's jump or a cancellation took away. */
        if (atomic_exchange(&waiting, 1) == 0)
            futex_wake(&waiting);
        futex_wait(&gate, CLOSED, NANOSECONDS);
    }
    errno = error_number;
}

void launch_enter(CUstream stream)
{
    if (depth != 0) {
        depth++;
        return;
    }
    struct shard *shard = own_shard();
    for (;;) {
        depth = 1;
        /* Sequentially consistent, like the gate's own word: either this launch sees a closed gate, or the gate sees this launch. */
        atomic_fetch_add(&shard->entered, 1);
        if (atomic_load(&gate) == OPEN || is_capturing(stream))
            break;
        atomic_fetch_add(&shard->left, 1);
        /* A handler that interrupts the wait has to wait itself, and may jump away. */
        depth = 0;
        wait_for_turn();
    }
    launch_contexts_note();
}

void launch_leave(void)
{
    if (--depth == 0)
        atomic_fetch_add(&own_shard()->left, 1);
}

void launch_gate_open(void)
{
    atomic_store(&waiting, 0);
    atomic_store(&gate, OPEN);
    futex_wake(&gate);
}

static bool is_empty(struct shard *shard)
{
    unsigned long long left = atomic_load(&shard->left);
    return atomic_load(&shard->entered) == left;
}

bool launch_gate_close(void)
{
    atomic_store(&gate, CLOSED);
    for (int i = 0; i < SHARDS; i++)
        while (!is_empty(&shards[i]))
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_NANOSECONDS}, NULL);
    if (!captures_in_progress())
        return true;
    launch_gate_open();
    return false;
}

bool launch_is_waiting(void)
{
    return atomic_load(&waiting) != 0;
}

void launch_gate_await_waiting(long long nanoseconds)
{
    futex_wait(&waiting, 0, nanoseconds);
}

uint64_t launch_count(void)
{
    uint64_t count = 0;
    for (int i = 0; i < SHARDS; i++)
        count += atomic_load_explicit(&shards[i].entered, memory_order_relaxed);
    return count;
}

void launch_gate_reset_in_child(void)
{
    pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    memcpy(&lock, &unlocked, sizeof lock);
    memset(shards, 0, sizeof shards);
    atomic_store(&waiting, 0);
    atomic_store(&gate, NEW);
    captures_reset_in_child();
    launch_contexts_reset_in_child();
    launch_turns_reset_in_child();
}
