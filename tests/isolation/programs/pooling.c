/* Threads that make pools, use them and destroy them at once, while what the others' pools keep is looked at. Prints the number of failures. */
#include <pthread.h>

#include "attempt.h"

int cuMemPoolCreate(void **pool, const void *properties);
int cuMemPoolDestroy(void *pool);
int cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, void *pool, void *stream);
int cuMemFreeAsync(CUdeviceptr pointer, void *stream);

enum { THREADS = 4, ROUNDS = 500 };

static void *context;
static int failures;

static void *run(void *argument)
{
    (void)argument;
    const int properties[22] = {1, 0, 1, 0};
    cuCtxSetCurrent(context);
    for (int round = 0; round < ROUNDS; round++) {
        void *pool;
        CUdeviceptr pointer;
        int failed = cuMemPoolCreate(&pool, properties) != 0;
        failed |= cuMemAllocFromPoolAsync(&pointer, 1 << 20, pool, NULL) != 0;
        failed |= cuMemFreeAsync(pointer, NULL) != 0;
        failed |= cuMemPoolDestroy(pool) != 0;
        __atomic_add_fetch(&failures, failed, __ATOMIC_RELAXED);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    if (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0)
        return 99;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%d\n", failures);
    return 0;
}
