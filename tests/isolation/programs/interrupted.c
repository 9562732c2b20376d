/* Calls CUDA under conditions that break careless locks: a signal handler that allocates and jumps out of what it interrupted, a thread that is
 * cancelled, a vfork child, and a fork while other threads allocate. Prints 1 if errno was kept, and what is allocated in the end. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attempt.h"

static sigjmp_buf outside;
static void *context;
static volatile int jumps;

/* The fake driver's own lock is not safe for this, and so only calls that end before the driver are used: they are refused. */
static void jump_out(int number)
{
    (void)number;
    CUdeviceptr pointer;
    cuMemAlloc_v2(&pointer, (size_t)1 << 40);
    jumps++;
    siglongjmp(outside, 1);
}

static void be_interrupted(void)
{
    const struct itimerval soon = {{0, 0}, {0, 200}}; /* once: a signal during the jump itself would grow the stack */
    signal(SIGALRM, jump_out);
    sigsetjmp(outside, 1);
    if (jumps < 200)
        setitimer(ITIMER_REAL, &soon, NULL);
    CUdeviceptr pointer;
    while (jumps < 200)
        cuMemAlloc_v2(&pointer, (size_t)1 << 40);
}

static void *allocate_for_ever(void *argument)
{
    (void)argument;
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
    cuCtxSetCurrent(context);
    for (;;) {
        CUdeviceptr pointer;
        cuMemAlloc_v2(&pointer, (size_t)1 << 40);
        pthread_testcancel();
    }
    return NULL;
}

static void fork_among_threads(void)
{
    for (int i = 0; i < 50; i++) {
        pid_t pid = fork();
        CUdeviceptr pointer;
        if (pid == 0)
            _exit(cuMemAlloc_v2(&pointer, (size_t)1 << 40) == 2 ? 0 : 1);
        int status;
        waitpid(pid, &status, 0);
        if (status != 0)
            exit(96);
    }
}

int main(void)
{
    pthread_t threads[3];
    use_first_device();
    cuDevicePrimaryCtxRetain(&context, 0);
    be_interrupted();
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, allocate_for_ever, NULL);
    fork_among_threads();
    for (int i = 0; i < 3; i++) {
        pthread_cancel(threads[i]);
        pthread_join(threads[i], NULL);
    }
    pid_t pid = vfork();
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    CUdeviceptr pointer;
    errno = 1234;
    int result = cuMemAlloc_v2(&pointer, 1 << 20);
    printf("%d %d\n", errno == 1234, result);
    return 0;
}
