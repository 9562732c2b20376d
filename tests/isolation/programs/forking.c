/* Children that each allocate pieces of 1 MiB until they are refused: fork, raw clone or vfork, as the first argument says. Prints the sum of
 * what they got; all of them hold it until the last is done. */
#define _GNU_SOURCE
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attempt.h"

enum { CHILDREN = 16 };

static int *shared; /* 0: granted in all, 1: children that are done, 2: the test has looked */

static void child(void)
{
    use_first_device();
    int granted = allocate_times(cuMemAlloc_v2, 200, 1 << 20);
    __atomic_add_fetch(&shared[0], granted, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&shared[1], 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&shared[2], __ATOMIC_SEQ_CST) == 0)
        usleep(1000);
    _exit(0);
}

static pid_t start(const char *way)
{
    /* Without the C library's fork handlers. */
    pid_t pid = strcmp(way, "clone") == 0 ? (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) : fork();
    if (pid == 0)
        child();
    return pid;
}

int main(int count, char **arguments)
{
    (void)count;
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    use_first_device();
    shared[0] = allocate_times(cuMemAlloc_v2, 30, 1 << 20); /* the children inherit a connection and 30 entries of the table */
    for (int i = 0; i < CHILDREN; i++)
        if (start(arguments[1]) < 0)
            return 98;
    while (__atomic_load_n(&shared[1], __ATOMIC_SEQ_CST) < CHILDREN)
        usleep(1000);
    printf("%d\n", shared[0]);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    __atomic_store_n(&shared[2], 1, __ATOMIC_SEQ_CST);
    while (wait(NULL) > 0)
        ;
    return 0;
}
