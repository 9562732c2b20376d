/* The driver's calls that programs which launch kernels use. A function of the fake driver is the time in µs that its kernel runs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int cuInit(unsigned int flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuCtxCreate_v2(void **context, unsigned int flags, int device);
int cuCtxDestroy_v2(void *context);
int cuGreenCtxCreate(void **green, void *resources, int device, unsigned int flags);
int cuCtxFromGreenCtx(void **context, void *green);
int cuGreenCtxDestroy(void *green);
int cuCtxSynchronize(void);
int cuStreamCreate(void **stream, unsigned int flags);
int cuStreamSynchronize(void *stream);
int cuStreamBeginCapture_v2(void *stream, int mode);
int cuGraphCreate(void **graph, unsigned int flags);
int cuStreamBeginRecaptureToGraph(void *stream, int mode, void *graph, void *callback, void *argument);
int cuStreamEndCapture(void *stream, void **graph);
int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags);
int cuGraphLaunch(void *executable, void *stream);
int cuLaunchKernel(void *function, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                   void *stream, void **parameters, void **extra);
int cuFakeLaunchKernel(void *function, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                       unsigned int, void *stream, void **parameters, void **extra);

static inline int launch(unsigned long long microseconds, void *stream)
{
    return cuLaunchKernel((void *)(uintptr_t)microseconds, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}

static inline void check(int result)
{
    if (result != 0) {
        fprintf(stderr, "a call failed with %d\n", result);
        exit(99);
    }
}
