/* Threads that allocate and free odd sizes at the quota's edge. Prints how many calls were granted and refused; frees everything. */
#include <pthread.h>

#include "attempt.h"

enum { THREADS = 8, STEPS = 600, SLOTS = 12 };

static void *context;
static int granted, refused;

static void *run(void *argument)
{
    unsigned int seed = (unsigned int)(uintptr_t)argument * 7919 + 1;
    CUdeviceptr slots[SLOTS] = {0};
    int got = 0, not_got = 0;
    cuCtxSetCurrent(context);
    for (int step = 0; step < STEPS; step++) {
        CUdeviceptr *slot = &slots[rand_r(&seed) % SLOTS];
        if (*slot != 0) {
            if (cuMemFree_v2(*slot) != 0)
                exit(97);
            *slot = 0;
        } else if (cuMemAlloc_v2(slot, 1 + rand_r(&seed) % (4 << 20)) == 0) {
            got++;
        } else {
            not_got++;
        }
    }
    for (int i = 0; i < SLOTS; i++)
        if (slots[i] != 0)
            cuMemFree_v2(slots[i]);
    __atomic_add_fetch(&granted, got, __ATOMIC_RELAXED);
    __atomic_add_fetch(&refused, not_got, __ATOMIC_RELAXED);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    if (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0)
        return 99;
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%d %d\n", granted, refused);
    return 0;
}
