/* The begin and the end of stream captures. A capture begins like a launch, with the turn, so none of its launches has to wait. */
#include <stdatomic.h>
#include <string.h>

#include "captures.h"
#include "critical_section.h"
#include "gpus.h"
#include "launch_gate.h"
#include "symbols.h"

enum { MOST_CAPTURES = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    CUstream stream;
    CUcontext context;
} captures[MOST_CAPTURES];
static atomic_int in_progress; /* how many of them there are */

struct capture capture_of(CUstream stream)
{
    __typeof__(&cuStreamGetCaptureInfo_v2) real = REAL(cuStreamGetCaptureInfo_v2);
    struct capture capture = {.active = false};
    int status = 0;
    if (real != NULL && real(stream, &status, &capture.number, NULL, NULL, NULL) == CUDA_SUCCESS)
        capture.active = status != 0;
    return capture;
}

bool is_capturing(CUstream stream)
{
    return capture_of(stream).active;
}

bool captures_in_progress(void)
{
    return atomic_load(&in_progress) > 0;
}

static CUcontext context_of(CUstream stream)
{
    __typeof__(&cuStreamGetCtx) of_stream = REAL(cuStreamGetCtx);
    __typeof__(&cuCtxGetCurrent) get_current = REAL(cuCtxGetCurrent);
    CUcontext context = NULL;
    if (!is_default_stream(stream) && of_stream != NULL && of_stream(stream, &context) == CUDA_SUCCESS)
        return context;
    return get_current != NULL && get_current(&context) == CUDA_SUCCESS ? context : NULL;
}

static void begun(CUstream stream)
{
    CUcontext context = context_of(stream);
    struct critical_section section = enter(&lock);
    if (in_progress < MOST_CAPTURES) {
        captures[in_progress].stream = stream;
        captures[in_progress].context = context;
        in_progress++;
    }
    leave(&lock, section);
}

static void over(CUstream stream)
{
    struct critical_section section = enter(&lock);
    for (int i = 0; i < in_progress; i++) {
        if (captures[i].stream == stream) {
            captures[i] = captures[--in_progress];
            break;
        }
    }
    leave(&lock, section);
}

void captures_end_with(CUcontext context)
{
    if (context == NULL || !captures_in_progress())
        return;
    struct critical_section section = enter(&lock);
    for (int i = in_progress - 1; i >= 0; i--)
        if (captures[i].context == context)
            captures[i] = captures[--in_progress];
    leave(&lock, section);
}

void captures_reset_in_child(void)
{
    pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    memcpy(&lock, &unlocked, sizeof lock);
    atomic_store(&in_progress, 0);
}

#define BEGIN(name, default_stream, ...)                                                                               \
    __typeof__(&name) real = REAL(name);                                                                               \
    if (real == NULL)                                                                                                  \
        return CUDA_ERROR_NOT_INITIALIZED;                                                                             \
    CUstream captured = stream != NULL ? stream : default_stream;                                                      \
    launch_enter(captured);                                                                                            \
    CUresult result = real(__VA_ARGS__);                                                                               \
    if (result == CUDA_SUCCESS)                                                                                        \
        begun(captured);                                                                                               \
    launch_leave();                                                                                                    \
    return result

CUresult cuStreamBeginCapture(CUstream stream)
{
    BEGIN(cuStreamBeginCapture, NULL, stream);
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream)
{
    BEGIN(cuStreamBeginCapture_ptsz, CU_STREAM_PER_THREAD, stream);
}

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
    BEGIN(cuStreamBeginCapture_v2, NULL, stream, mode);
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode)
{
    BEGIN(cuStreamBeginCapture_v2_ptsz, CU_STREAM_PER_THREAD, stream, mode);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *after, const void *edges,
                                     size_t count, int mode)
{
    BEGIN(cuStreamBeginCaptureToGraph, NULL, stream, graph, after, edges, count, mode);
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode *after, const void *edges,
                                          size_t count, int mode)
{
    BEGIN(cuStreamBeginCaptureToGraph_ptsz, CU_STREAM_PER_THREAD, stream, graph, after, edges, count, mode);
}

/* Since CUDA 13.3: into a graph that was captured before. */
CUresult cuStreamBeginRecaptureToGraph(CUstream stream, int mode, CUgraph graph, void *callback, void *argument)
{
    BEGIN(cuStreamBeginRecaptureToGraph, NULL, stream, mode, graph, callback, argument);
}

CUresult cuStreamBeginRecaptureToGraph_ptsz(CUstream stream, int mode, CUgraph graph, void *callback, void *argument)
{
    BEGIN(cuStreamBeginRecaptureToGraph_ptsz, CU_STREAM_PER_THREAD, stream, mode, graph, callback, argument);
}

/* A capture ends whether it was valid or not, and with its stream. */
static CUresult ended(bool was_capturing, CUstream stream, CUresult result, bool with_stream)
{
    if (was_capturing && (with_stream ? result == CUDA_SUCCESS : !is_capturing(stream)))
        over(stream);
    return result;
}

#define END(name, default_stream, with_stream, ...)                                                                    \
    __typeof__(&name) real = REAL(name);                                                                               \
    if (real == NULL)                                                                                                  \
        return CUDA_ERROR_NOT_INITIALIZED;                                                                             \
    CUstream captured = stream != NULL ? stream : default_stream;                                                      \
    bool was_capturing = captures_in_progress() && is_capturing(captured);                                             \
    return ended(was_capturing, captured, real(__VA_ARGS__), with_stream)

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    END(cuStreamEndCapture, NULL, false, stream, graph);
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
    END(cuStreamEndCapture_ptsz, CU_STREAM_PER_THREAD, false, stream, graph);
}

CUresult cuStreamDestroy(CUstream stream)
{
    END(cuStreamDestroy, NULL, true, stream);
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    END(cuStreamDestroy_v2, NULL, true, stream);
}
