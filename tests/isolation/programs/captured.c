/* Another thread ends a capture after the library has looked at it, so that the call that follows is done at once. The first argument says which
 * call: "allocate" or "free"; the second how many bytes. Prints the call's result; then waits for the end of its input, so that the test can
 * compare the device with the account. */
#include <pthread.h>
#include <string.h>

#include "attempt.h"

int cuStreamCreate(void **stream, unsigned int flags);
int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamEndCapture(void *stream, void **graph);
int cuStreamSynchronize(void *stream);
int cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, void *stream);
int cuMemFreeAsync(CUdeviceptr pointer, void *stream);
void cuFakeBeforeReturn(const char *call, void (*function)(void));

static void *stream;

static void *end_capture(void *unused)
{
    void *graph;
    if (cuStreamEndCapture(stream, &graph) != 0)
        exit(98);
    return unused;
}

static void run_other_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, end_capture, NULL) != 0 || pthread_join(thread, NULL) != 0)
        exit(97);
}

int main(int count, char **arguments)
{
    (void)count;
    int frees = strcmp(arguments[1], "free") == 0;
    size_t bytes = strtoull(arguments[2], NULL, 10);
    CUdeviceptr pointer;
    use_first_device();
    if (cuStreamCreate(&stream, 0) != 0 || (frees && cuMemAllocAsync(&pointer, bytes, stream) != 0))
        return 96;
    if (cuStreamBeginCapture_v2(stream, 0) != 0)
        return 95;
    cuFakeBeforeReturn("a look at the capture", run_other_thread);
    printf("%d\n", frees ? cuMemFreeAsync(pointer, stream) : cuMemAllocAsync(&pointer, bytes, stream));
    if (cuStreamSynchronize(stream) != 0)
        return 94;
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
