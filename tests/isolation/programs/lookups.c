/* dlsym for functions that are not CUDA's: the library must not be seen between a program and the dynamic linker. Prints 1 for each check. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* This program's own, before the C library's. */
int puts(const char *text)
{
    (void)text;
    return 1234;
}

int main(void)
{
    int (*next_puts)(const char *) = (int (*)(const char *))dlsym(RTLD_NEXT, "puts");
    int (*own_puts)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "puts");
    printf("%d\n", next_puts != puts && next_puts != NULL);
    printf("%d\n", own_puts == puts || own_puts == NULL);
    /* Without a driver there is no cuMemAlloc_v2, and dlerror says so. */
    dlerror();
    printf("%d\n", dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") == NULL);
    const char *error = dlerror();
    printf("%d\n", error != NULL && strstr(error, "cuMemAlloc_v2") != NULL);
    void *library = dlopen("libm.so.6", RTLD_NOW);
    printf("%d\n", dlsym(library, "cuMemAlloc_v2") == NULL && dlerror() != NULL);
    printf("%d\n", dlsym(library, "cbrt") != NULL && dlvsym(library, "cbrt", "GLIBC_2.2.5") != NULL);
    return 0;
}
