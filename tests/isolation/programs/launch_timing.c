/* What a launch costs with the gate open and without the library: `launch_timing LAUNCHES BURSTS WORK`.
 *
 * Bursts through the interposer and past it follow one another. WORK is the number of steps that the program computes after each launch.
 * Prints its pid, and for each pair of bursts the nanoseconds of both. */
#include <time.h>
#include <unistd.h>

#include "launches.h"

typedef int (*launch_function)(void *, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                               void *, void **, void **);

static long long burst(launch_function function, int launches, int work, void *stream)
{
    struct timespec begin, end;
    volatile int steps = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < launches; i++) {
        check(function(NULL, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
        for (int step = 0; step < work; step++)
            steps++;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec;
}

int main(int count, char **arguments)
{
    void *context, *stream;
    if (count != 4)
        return 98;
    int launches = atoi(arguments[1]), bursts = atoi(arguments[2]), work = atoi(arguments[3]);
    check(cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || cuStreamCreate(&stream, 0));
    check(launch(0, stream)); /* the first waits for a turn, and the process keeps it */
    for (int i = 0; i < bursts; i++) {
        long long gated = burst(cuLaunchKernel, launches, work, stream);
        printf("%lld %lld\n", gated, burst(cuFakeLaunchKernel, launches, work, stream));
    }
    return 0;
}
