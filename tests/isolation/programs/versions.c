/* cuGetProcAddress chooses by version. Prints 1 for each check. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "attempt.h"

int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status);

static void *get(const char *name, int version, uint64_t flags)
{
    void *function = NULL;
    int status;
    return cuGetProcAddress_v2(name, &function, version, flags, &status) == 0 ? function : NULL;
}

int main(void)
{
    use_first_device();
    /* cuCtxSynchronize(context) of CUDA 13 is another function than cuCtxSynchronize(void): NULL is an invalid context. */
    printf("%d\n", ((int (*)(void *))get("cuCtxSynchronize", 13000, 0))(NULL) == 201);
    printf("%d\n", ((int (*)(void *))get("cuCtxSynchronize", 12000, 0))(NULL) == 0);
    /* The driver returns another address than the one that it exports. */
    CUdeviceptr pointer;
    int (*managed)(CUdeviceptr *, size_t, unsigned int) = (int (*)(CUdeviceptr *, size_t, unsigned int))get("cuMemAllocManaged", 12000, 0);
    printf("%d\n", managed(&pointer, (size_t)200 << 20, 1) == 2 && managed(&pointer, 1 << 20, 1) == 0);
    /* Per-thread default stream. */
    int (*async)(CUdeviceptr *, size_t, void *) = (int (*)(CUdeviceptr *, size_t, void *))get("cuMemAllocAsync", 12000, 2);
    printf("%d\n", async(&pointer, (size_t)200 << 20, NULL) == 2 && async(&pointer, 1 << 20, NULL) == 0);
    return 0;
}
