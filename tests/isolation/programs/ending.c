/* A pool ends. Before the call that destroys it has returned, another thread frees the pool's last allocation and makes a pool that keeps what
 * is freed. Prints the number of failures; then waits for the end of its input, so that the test can compare the device with the account. */
#include <pthread.h>

#include "attempt.h"

int cuMemPoolCreate(void **pool, const void *properties);
int cuMemPoolDestroy(void *pool);
int cuMemPoolSetAttribute(void *pool, int attribute, void *value);
int cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, void *pool, void *stream);
int cuMemFreeAsync(CUdeviceptr pointer, void *stream);
void cuFakeBeforeReturn(const char *call, void (*function)(void));

static const int properties[22] = {1, 0, 1, 0};
static int failures;
static CUdeviceptr last, kept;

static void expect(int holds)
{
    failures += !holds;
}

static void *free_and_make_another(void *unused)
{
    void *pool;
    uint64_t threshold = (uint64_t)1 << 40;
    use_first_device();
    expect(cuMemFreeAsync(last, NULL) == 0);
    expect(cuMemPoolCreate(&pool, properties) == 0 && cuMemPoolSetAttribute(pool, 4, &threshold) == 0);
    expect(cuMemAllocFromPoolAsync(&kept, 70 << 20, pool, NULL) == 0);
    return unused;
}

static void run_other_thread(void)
{
    pthread_t thread;
    expect(pthread_create(&thread, NULL, free_and_make_another, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

int main(void)
{
    void *pool;
    use_first_device();
    expect(cuMemPoolCreate(&pool, properties) == 0 && cuMemAllocFromPoolAsync(&last, 2 << 20, pool, NULL) == 0);
    cuFakeBeforeReturn("cuMemPoolDestroy", run_other_thread);
    expect(cuMemPoolDestroy(pool) == 0);
    expect(cuMemFreeAsync(kept, NULL) == 0);
    printf("%d\n", failures);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
