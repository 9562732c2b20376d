/* Kernels that take time. A function's handle is the time that its kernel runs, in µs.
 *
 * The kernels of a stream run one after the other, those of several streams at once. Each that has run is a record in the file `kernels`
 * beside the devices, if it exists: the process, the begin and the end (CLOCK_MONOTONIC, ns). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "fake_driver.h"

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void record(int64_t begin, int64_t end)
{
    static int file = -2;
    char path[4096];
    if (file == -2) {
        snprintf(path, sizeof path, "%s/kernels", getenv("FAKE_CUDA_DEVICES"));
        file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    }
    int64_t entry[] = {getpid(), begin, end};
    if (file >= 0 && write(file, entry, sizeof entry) != sizeof entry)
        abort();
}

CUresult run_kernel(struct stream *stream, uint64_t microseconds)
{
    struct context *context = (uint64_t)stream > 2 ? stream->context : current();
    if (context == NULL)
        return INVALID_CONTEXT;
    if (captured_graph(stream) != NULL)
        return add_kernel_node(captured_graph(stream), microseconds);
    if (microseconds == 0)
        return SUCCESS;
    driver_lock();
    int64_t *busy_until = (uint64_t)stream > 2 ? &stream->busy_until : &context->busy_until;
    int64_t begin = now() > *busy_until ? now() : *busy_until;
    *busy_until = begin + (int64_t)microseconds * 1000;
    if (*busy_until > context->busy_until)
        context->busy_until = *busy_until;
    record(begin, *busy_until);
    driver_unlock();
    return SUCCESS;
}

void wait_until(int64_t nanoseconds)
{
    struct timespec time = {nanoseconds / 1000000000, nanoseconds % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) != 0)
        ;
}

FAKE CUresult cuLaunchKernel(void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
                             unsigned int block_y, unsigned int block_z, unsigned int shared, CUstream stream, void **parameters,
                             void **extra)
{
    (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z, (void)shared;
    (void)parameters, (void)extra;
    return run_kernel(stream, (uint64_t)function);
}

FAKE CUresult cuLaunchCooperativeKernel(void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
                                        CUstream stream, void **parameters)
{
    return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, parameters, NULL);
}

struct configuration {
    unsigned int grid[3], block[3], shared;
    CUstream stream;
};

FAKE CUresult cuLaunchKernelEx(const struct configuration *configuration, void *function, void **parameters, void **extra)
{
    (void)parameters, (void)extra;
    return run_kernel(configuration->stream, (uint64_t)function);
}

/* The same call under a name that the interposer does not know. */
FAKE CUresult cuFakeLaunchKernel(void *, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                                 unsigned int, CUstream, void **, void **) __attribute__((alias("cuLaunchKernel")));
