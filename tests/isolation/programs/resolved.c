/* Gets cuMemAlloc in the way that the first argument names, allocates 10 times 20 MiB, and prints how often it got them; then waits for the
 * end of its input, so that the test can look at the device. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "attempt.h"

typedef int (*proc_address)(const char *, void **, int, uint64_t);
typedef void *(*lookup)(void *, const char *);
typedef void *(*versioned_lookup)(void *, const char *, const char *);
typedef int (*proc_address_2)(const char *, void **, int, uint64_t, int *);

static void *from_proc_address(void *library, int version)
{
    void *function = NULL;
    int status;
    if (version < 12000)
        ((proc_address)dlsym(library, "cuGetProcAddress"))("cuMemAlloc", &function, version, 0);
    else
        ((proc_address_2)dlsym(library, "cuGetProcAddress_v2"))("cuMemAlloc", &function, version, 0, &status);
    return function;
}

static void *from_proc_address_of_itself(void *library)
{
    void *again = NULL, *function = NULL;
    int status;
    ((proc_address_2)dlsym(library, "cuGetProcAddress_v2"))("cuGetProcAddress", &again, 12000, 0, &status);
    ((proc_address_2)again)("cuMemAlloc", &function, 12000, 0, &status);
    return function;
}

/* Another instance of the driver has contexts of its own. */
static void use_device_of(void *library)
{
    void *context;
    int (*init)(unsigned int) = (int (*)(unsigned int))dlsym(library, "cuInit");
    int (*retain)(void **, int) = (int (*)(void **, int))dlsym(library, "cuDevicePrimaryCtxRetain");
    int (*set)(void *) = (int (*)(void *))dlsym(library, "cuCtxSetCurrent");
    if (init(0) != 0 || retain(&context, 0) != 0 || set(context) != 0)
        exit(98);
}

static void *from_other_instance(void *library)
{
    if (library == NULL) {
        fputs(dlerror(), stderr);
        exit(97);
    }
    use_device_of(library);
    return dlsym(library, "cuMemAlloc_v2");
}

static void *resolve(const char *way, const char *argument)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (strcmp(way, "linked") == 0)
        return (void *)cuMemAlloc_v2;
    if (strcmp(way, "dlsym") == 0)
        return dlsym(library, "cuMemAlloc_v2");
    if (strcmp(way, "dlvsym") == 0)
        return dlvsym(library, "cuMemAlloc_v2", "FAKE_DRIVER_1");
    if (strcmp(way, "default") == 0)
        return dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
    if (strcmp(way, "next") == 0)
        return dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    if (strcmp(way, "libc's dlsym") == 0)
        return ((lookup)dlsym(dlopen("libc.so.6", RTLD_NOW), "dlsym"))(library, "cuMemAlloc_v2");
    if (strcmp(way, "the next dlsym") == 0)
        return ((lookup)dlsym(RTLD_NEXT, "dlsym"))(library, "cuMemAlloc_v2");
    if (strcmp(way, "the next dlsym of a version") == 0)
        return ((lookup)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"))(library, "cuMemAlloc_v2");
    if (strcmp(way, "dlvsym of a version") == 0)
        return ((versioned_lookup)dlvsym(RTLD_NEXT, "dlvsym", "GLIBC_2.2.5"))(library, "cuMemAlloc_v2", "FAKE_DRIVER_1");
    if (strcmp(way, "path") == 0)
        return dlsym(dlopen(argument, RTLD_NOW), "cuMemAlloc_v2");
    if (strcmp(way, "deepbind") == 0)
        return dlsym(dlopen(argument, RTLD_NOW | RTLD_DEEPBIND), "allocate");
    if (strcmp(way, "copy") == 0)
        return from_other_instance(dlopen(argument, RTLD_NOW));
    if (strcmp(way, "dlmopen") == 0)
        return from_other_instance(dlmopen(LM_ID_NEWLM, argument, RTLD_NOW));
    if (strcmp(way, "cuGetProcAddress 11.3") == 0)
        return from_proc_address(library, 11030);
    if (strcmp(way, "cuGetProcAddress 12") == 0)
        return from_proc_address(library, 12000);
    return from_proc_address_of_itself(library);
}

int main(int count, char **arguments)
{
    (void)count;
    use_first_device();
    allocate_function allocate = (allocate_function)resolve(arguments[1], arguments[2]);
    printf("%d\n", allocate_times(allocate, 10, 20 << 20));
    fflush(stdout);
    while (getchar() != EOF)
        ;
    _exit(0);
}
