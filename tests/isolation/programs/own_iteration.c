/* A program with its own dl_iterate_phdr, as programs that cache the list of objects have: it finds libc's by dlsym. Needs no CUDA. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

int dl_iterate_phdr(int (*callback)(struct dl_phdr_info *, size_t, void *), void *data)
{
    __typeof__(&dl_iterate_phdr) real = (__typeof__(&dl_iterate_phdr))dlsym(RTLD_NEXT, "dl_iterate_phdr");
    return real(callback, data);
}

static int count(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)info, (void)size;
    ++*(int *)argument;
    return 0;
}

int main(void)
{
    int objects = 0;
    dl_iterate_phdr(count, &objects);
    printf("%d\n", objects > 0);
    return 0;
}
