/* What the programs that allocate share: a context on the first device, and the numbers that the test reads. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef unsigned long long CUdeviceptr;
typedef int (*allocate_function)(CUdeviceptr *, size_t);

int cuInit(unsigned int flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes);
int cuMemFree_v2(CUdeviceptr pointer);

static inline void use_first_device(void)
{
    void *context;
    if (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0 || cuCtxSetCurrent(context) != 0)
        exit(99);
}

/* Allocates again and again; returns the number of successes. */
static inline int allocate_times(allocate_function allocate, int times, size_t bytes)
{
    int granted = 0;
    CUdeviceptr pointer;
    for (int i = 0; i < times; i++)
        granted += allocate(&pointer, bytes) == 0;
    return granted;
}
