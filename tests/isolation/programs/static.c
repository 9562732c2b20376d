/* Linked statically with the driver: no dynamic linker, so nothing is preloaded. Prints how often it got 20 MiB. */
#include "attempt.h"

int main(void)
{
    use_first_device();
    printf("%d\n", allocate_times(cuMemAlloc_v2, 10, 20 << 20));
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
