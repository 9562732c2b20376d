/* Unloads the driver and looks for its function. Prints 1 for each check. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **arguments)
{
    (void)count;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    printf("%d\n", driver != NULL && dlsym(driver, "cuMemAlloc_v2") != NULL);
    printf("%d\n", dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") != NULL);
    dlclose(driver);
    printf("%d\n", dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") == NULL);
    /* A copy under another path is another object. */
    void *copy = dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL);
    int (*initialize)(unsigned int) = (int (*)(unsigned int))dlsym(RTLD_DEFAULT, "cuInit");
    int (*total)(size_t *, int) = (int (*)(size_t *, int))dlsym(RTLD_DEFAULT, "cuDeviceTotalMem_v2");
    size_t bytes = 0;
    printf("%d\n", copy != NULL && initialize(0) == 0 && total(&bytes, 0) == 0 && bytes == 100 << 20);
    return 0;
}
