/* An image's own preloaded library with a dlsym of its own, as overlays and profilers have it: it gets libc's by its version. */
#define _GNU_SOURCE
#include <dlfcn.h>

void *dlsym(void *handle, const char *name)
{
    void *(*real)(void *, const char *) = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return real(handle, name);
}
