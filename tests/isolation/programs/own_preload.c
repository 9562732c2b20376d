/* A library that an image preloads itself, as profilers do: it counts cuMemAlloc and passes the call on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes)
{
    static int calls;
    fprintf(stderr, "call %d\n", ++calls);
    return ((int (*)(unsigned long long *, size_t))dlsym(RTLD_NEXT, "cuMemAlloc_v2"))(pointer, bytes);
}
