/* Frees 2 MiB by the call that the argument names. Before that call has returned, another thread gets the same handle for 70 MiB. Prints the
 * number of failures; then waits for the end of its input, so that the test can compare the device with the account. */
#include <pthread.h>
#include <string.h>

#include "attempt.h"

typedef unsigned long long handle;

int cuMemCreate(handle *handle, size_t bytes, const void *properties, unsigned long long flags);
int cuMemRelease(handle handle);
int cuMemAddressReserve(CUdeviceptr *pointer, size_t bytes, size_t alignment, CUdeviceptr wanted, unsigned long long flags);
int cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, handle handle, unsigned long long flags);
int cuMemUnmap(CUdeviceptr pointer, size_t bytes);
int cuCtxCreate_v2(void **context, unsigned int flags, int device);
int cuCtxDestroy_v2(void *context);
int cuDevicePrimaryCtxReset_v2(int device);
int cuGraphCreate(void **graph, unsigned int flags);
int cuGraphAddMemAllocNode(void **node, void *graph, const void *after, size_t count, void *parameters);
int cuGraphAddMemFreeNode(void **node, void *graph, const void *after, size_t count, CUdeviceptr pointer);
int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags);
int cuGraphExecDestroy(void *executable);
void cuFakeBeforeReturn(const char *call, void (*function)(void));

enum { SMALL = 2 << 20, LARGE = 70 << 20 };

static int failures;
static handle first, second;
static CUdeviceptr address;
static void *first_object, *second_object;

static void expect(int holds)
{
    failures += !holds;
}

static handle create(size_t bytes)
{
    const int properties[8] = {1, 0, 1, 0};
    handle made = 0;
    expect(cuMemCreate(&made, bytes, properties, 0) == 0);
    return made;
}

/* Two nodes allocate the bytes; one of the halves is freed by the graph itself. */
static void *instantiate(size_t bytes)
{
    void *graph, *node, *executable = NULL;
    unsigned long long parameters[16] = {1, 1};
    parameters[13] = bytes / 2;
    expect(cuGraphCreate(&graph, 0) == 0 && cuGraphAddMemAllocNode(&node, graph, NULL, 0, parameters) == 0);
    expect(cuGraphAddMemFreeNode(&node, graph, NULL, 0, parameters[14]) == 0);
    expect(cuGraphAddMemAllocNode(&node, graph, NULL, 0, parameters) == 0);
    expect(cuGraphInstantiateWithFlags(&executable, graph, 0) == 0);
    return executable;
}

static void *create_handle(void *unused)
{
    second = create(LARGE);
    expect(second == first);
    return unused;
}

static void *create_and_map(void *unused)
{
    create_handle(unused);
    expect(cuMemMap(address, LARGE, 0, second, 0) == 0);
    return unused;
}

static void *make_context(void *unused)
{
    CUdeviceptr pointer;
    expect(cuCtxCreate_v2(&second_object, 0, 0) == 0 && second_object == first_object);
    expect(cuMemAlloc_v2(&pointer, LARGE) == 0);
    return unused;
}

static void *use_primary_context(void *unused)
{
    CUdeviceptr pointer;
    use_first_device();
    expect(cuMemAlloc_v2(&pointer, LARGE) == 0);
    return unused;
}

static void *instantiate_graph(void *unused)
{
    second_object = instantiate(LARGE);
    expect(second_object == first_object);
    return unused;
}

static void *(*other_thread)(void *);

static void run_other_thread(void)
{
    pthread_t thread;
    expect(pthread_create(&thread, NULL, other_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

static void interrupt(const char *call, void *(*run)(void *))
{
    other_thread = run;
    cuFakeBeforeReturn(call, run_other_thread);
}

static void attempt(const char *call)
{
    CUdeviceptr pointer;
    if (strcmp(call, "cuMemRelease") == 0) {
        first = create(SMALL);
        interrupt(call, create_handle);
        expect(cuMemRelease(first) == 0);
    } else if (strcmp(call, "cuMemUnmap") == 0) {
        first = create(SMALL);
        expect(cuMemAddressReserve(&address, LARGE, 0, 0, 0) == 0 && cuMemMap(address, SMALL, 0, first, 0) == 0);
        expect(cuMemRelease(first) == 0);
        interrupt(call, create_and_map);
        expect(cuMemUnmap(address, SMALL) == 0 && cuMemRelease(second) == 0);
    } else if (strcmp(call, "cuGraphExecDestroy") == 0) {
        first_object = instantiate(SMALL);
        interrupt(call, instantiate_graph);
        expect(cuGraphExecDestroy(first_object) == 0);
    } else if (strcmp(call, "cuCtxDestroy") == 0) {
        expect(cuCtxCreate_v2(&first_object, 0, 0) == 0 && cuMemAlloc_v2(&pointer, SMALL) == 0);
        interrupt(call, make_context);
        expect(cuCtxDestroy_v2(first_object) == 0);
    } else {
        expect(cuMemAlloc_v2(&pointer, SMALL) == 0);
        interrupt(call, use_primary_context);
        expect(cuDevicePrimaryCtxReset_v2(0) == 0);
    }
}

int main(int count, char **arguments)
{
    (void)count;
    use_first_device();
    attempt(arguments[1]);
    printf("%d\n", failures);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
