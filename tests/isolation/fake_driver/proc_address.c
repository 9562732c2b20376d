/* cuGetProcAddress: names have no suffix; a version and flags choose the function, as in CUDA 12. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_driver.h"

FAKE CUresult cuGetProcAddress(const char *name, void **function, int version, uint64_t flags);
FAKE CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status);
CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes);
CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream);
CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream);
CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned int flags);
CUresult cuMemFree_v2(CUdeviceptr pointer);
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream);
CUresult cuCtxSynchronize(void);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags);

/* The later signature: another function of the same name. */
FAKE CUresult cuCtxSynchronize_v2(CUcontext context)
{
    return context != NULL ? 0 : INVALID_CONTEXT;
}

/* A later signature of a call that allocates, of a driver with FAKE_CUDA_LATER_ALLOCATION. The interposer does not know it. */
FAKE CUresult cuMemAlloc_v3(CUdeviceptr *pointer, size_t bytes, void *context)
{
    return context == NULL ? cuMemAlloc_v2(pointer, bytes) : INVALID_CONTEXT;
}

FAKE CUresult cuDriverGetVersion(int *version)
{
    *version = 13000;
    return SUCCESS;
}

/* A driver may return another address than the exported one. */
static CUresult private_mem_alloc_managed(CUdeviceptr *pointer, size_t bytes, unsigned int flags)
{
    return cuMemAllocManaged(pointer, bytes, flags);
}

static const struct {
    const char *name;
    int from_version;
    uint64_t flags;
    void *function;
} offered[] = {
    {"cuGetProcAddress", 12000, 0, (void *)cuGetProcAddress_v2},
    {"cuGetProcAddress", 0, 0, (void *)cuGetProcAddress},
    {"cuMemAlloc", 3020, 0, (void *)cuMemAlloc_v2},
    {"cuMemAllocManaged", 6000, 0, (void *)private_mem_alloc_managed},
    {"cuMemFree", 3020, 0, (void *)cuMemFree_v2},
    {"cuMemAllocAsync", 11020, 2, (void *)cuMemAllocAsync_ptsz},
    {"cuMemAllocAsync", 11020, 0, (void *)cuMemAllocAsync},
    {"cuMemFreeAsync", 11020, 0, (void *)cuMemFreeAsync},
    {"cuCtxSynchronize", 13000, 0, (void *)cuCtxSynchronize_v2},
    {"cuCtxSynchronize", 2000, 0, (void *)cuCtxSynchronize},
    {"cuGraphInstantiate", 12000, 0, (void *)cuGraphInstantiateWithFlags},
};

FAKE CUresult cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
    if (strcmp(name, "cuMemAlloc") == 0 && version >= 13000 && getenv("FAKE_CUDA_LATER_ALLOCATION") != NULL) {
        *function = (void *)cuMemAlloc_v3;
        return SUCCESS;
    }
    for (size_t i = 0; i < sizeof offered / sizeof *offered; i++) {
        if (strcmp(offered[i].name, name) == 0 && version >= offered[i].from_version &&
            (offered[i].flags == 0 || offered[i].flags == flags)) {
            *function = offered[i].function;
            return SUCCESS;
        }
    }
    *function = NULL;
    return NOT_FOUND;
}

FAKE CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status)
{
    CUresult result = cuGetProcAddress(name, function, version, flags);
    if (status != NULL)
        *status = result == SUCCESS ? 0 : 1;
    return result;
}
