/* Launches kernels as it is told on standard input, one command a line, and answers each with a line: the commands are in `commands`. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launches.h"

static atomic_bool running;
static atomic_ulong launched;
static pthread_t thread;
static void *context, *graph_exec, *stream;
static unsigned long long microseconds;

static void *launch_again(void *unused)
{
    cuCtxSetCurrent(context);
    for (unsigned long count = 1; atomic_load(&running); count++) {
        check(graph_exec != NULL ? cuGraphLaunch(graph_exec, stream) : launch(microseconds, stream));
        atomic_fetch_add(&launched, 1);
        if (count % 4 == 0)
            check(cuStreamSynchronize(stream)); /* as a program that waits for its results */
    }
    return unused;
}

/* Launches kernels of this length again and again, until `stop`. */
static void run(unsigned long long argument)
{
    microseconds = argument;
    atomic_store(&running, true);
    check(pthread_create(&thread, NULL, launch_again, NULL));
}

static void stop(unsigned long long argument)
{
    (void)argument;
    atomic_store(&running, false);
    check(pthread_join(thread, NULL));
    check(cuCtxSynchronize());
}

/* Launches one kernel. */
static void once(unsigned long long argument)
{
    check(launch(argument, stream));
    atomic_fetch_add(&launched, 1);
}

/* From now on `run` launches a captured graph of two kernels of this length. */
static void capture(unsigned long long argument)
{
    void *graph;
    check(cuStreamBeginCapture_v2(stream, 0));
    check(launch(argument, stream));
    check(launch(argument, stream));
    check(cuStreamEndCapture(stream, &graph));
    check(cuGraphInstantiateWithFlags(&graph_exec, graph, 0));
}

/* Begins a capture that stays open, until `end_capture`. */
static void begin_capture(unsigned long long argument)
{
    check(cuStreamBeginCapture_v2(stream, 0));
    check(launch(argument, stream));
}

/* The same into a graph that was captured before. */
static void begin_recapture(unsigned long long argument)
{
    void *graph;
    check(cuGraphCreate(&graph, 0));
    check(cuStreamBeginRecaptureToGraph(stream, 0, graph, NULL, NULL));
    check(launch(argument, stream));
}

static void end_capture(unsigned long long argument)
{
    void *graph;
    (void)argument;
    check(cuStreamEndCapture(stream, &graph));
}

/* A child launches one kernel. Before any launch only: CUDA is not inherited. */
static void fork_and_launch(unsigned long long argument)
{
    pid_t child = fork();
    if (child == 0) {
        check(launch(argument, stream));
        check(cuCtxSynchronize());
        _exit(0);
    }
    int status;
    check(waitpid(child, &status, 0) != child || status != 0);
    atomic_fetch_add(&launched, 1);
}

/* A child by a raw `clone` ends by itself, without having used CUDA. */
static void clone_and_exit(unsigned long long argument)
{
    (void)argument;
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0)
        exit(0);
    int status;
    check(waitpid(child, &status, 0) != child || status != 0);
}

/* A capture that nothing ends but the end of its context. */
static void capture_until_the_contexts_end(unsigned long long argument)
{
    void *other, *captured;
    check(cuCtxCreate_v2(&other, 0, 0) || cuStreamCreate(&captured, 0) || cuStreamBeginCapture_v2(captured, 0));
    check(launch(argument, captured));
    check(cuCtxDestroy_v2(other));
    check(cuCtxSetCurrent(context));
}

static unsigned long long microseconds_in_handler;

static void launch_in_handler(int number)
{
    (void)number;
    check(launch(microseconds_in_handler, stream));
    atomic_fetch_add(&launched, 1);
}

/* Launches a kernel; a signal handler that interrupts it once it waits launches another one. */
static void interrupted(unsigned long long argument)
{
    microseconds_in_handler = argument;
    signal(SIGALRM, launch_in_handler);
    alarm(1);
    once(argument);
    while (atomic_load(&launched) < 2)
        pause();
}

static sigjmp_buf before;

static void jump_back(int number)
{
    (void)number;
    siglongjmp(before, 1);
}

/* Launches a kernel, jumps out of the launch if it waits, and launches five more. */
static void jump_out(unsigned long long argument)
{
    signal(SIGALRM, jump_back);
    if (sigsetjmp(before, 1) == 0) {
        alarm(1);
        check(launch(argument, stream));
        alarm(0);
    }
    for (int i = 0; i < 5; i++)
        once(argument);
}

/* Launches a kernel in a green context, and destroys that. */
static void once_in_green(unsigned long long argument)
{
    void *green, *green_context;
    check(cuGreenCtxCreate(&green, NULL, 0, 1) || cuCtxFromGreenCtx(&green_context, green) || cuCtxSetCurrent(green_context));
    check(launch(argument, NULL) || cuCtxSynchronize() || cuCtxSetCurrent(context) || cuGreenCtxDestroy(green));
    atomic_fetch_add(&launched, 1);
}

static const struct {
    const char *name;
    void (*function)(unsigned long long);
} commands[] = {
    {"run", run},
    {"stop", stop},
    {"once", once},
    {"once_in_green", once_in_green},
    {"jump_out", jump_out},
    {"clone_and_exit", clone_and_exit},
    {"capture_until_the_contexts_end", capture_until_the_contexts_end},
    {"interrupted", interrupted},
    {"capture", capture},
    {"begin_capture", begin_capture},
    {"begin_recapture", begin_recapture},
    {"end_capture", end_capture},
    {"fork_and_launch", fork_and_launch},
};

int main(void)
{
    char line[256], name[64];
    unsigned long long argument;
    check(cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || cuStreamCreate(&stream, 0));
    printf("{\"pid\": %d}\n", (int)getpid());
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (sscanf(line, "%63s %llu", name, &argument) != 2)
            return 98;
        for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
            if (strcmp(commands[i].name, name) == 0)
                commands[i].function(argument);
        printf("{\"launched\": %lu}\n", atomic_load(&launched));
        fflush(stdout);
    }
    return 0;
}
