/* The ends of contexts, which free what was allocated in them. */
#include "captures.h"
#include "graph_memory.h"
#include "launch_contexts.h"
#include "pools.h"
#include "reservation.h"
#include "symbols.h"

static bool is_of_context(const struct allocation *allocation, const void *argument)
{
    return allocation->context != NULL && allocation->context == *(const CUcontext *)argument;
}

/* `began`: before the driver was told to end the context. Another may have its handle since. */
static void drop_context(CUcontext context, uint64_t began)
{
    struct allocation allocation;
    size_t cursor = 0;
    while (context != NULL && allocations_take_next(is_of_context, &context, began, &cursor, &allocation))
        release(&allocation);
    captures_end_with(context);
    pools_settle();
}

static CUresult destroy_context(CUresult (*real)(CUcontext), CUcontext context)
{
    if (real == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    launch_contexts_forget(context);
    uint64_t began = allocations_now();
    struct graph_change change = graph_memory_begin(GRAPH_CONTEXT_END, (uintptr_t)context);
    CUresult result = real(context);
    graph_memory_end(change, result == CUDA_SUCCESS);
    if (result == CUDA_SUCCESS)
        drop_context(context, began);
    return result;
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
    return destroy_context(REAL(cuCtxDestroy_v2), context);
}

CUresult cuCtxDestroy(CUcontext context)
{
    return destroy_context(REAL(cuCtxDestroy), context);
}

static bool is_active(CUdevice device)
{
    __typeof__(&cuDevicePrimaryCtxGetState) get_state = REAL(cuDevicePrimaryCtxGetState);
    unsigned int flags;
    int active = 0;
    return get_state != NULL && get_state(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

typedef CUresult (*device_call)(CUdevice);

/* The driver tells a primary context only to those that retain it; one that is not active is left alone, because that would make it. */
static CUcontext primary_context(CUdevice device)
{
    __typeof__(&cuDevicePrimaryCtxRetain) retain = REAL(cuDevicePrimaryCtxRetain);
    device_call release_context = REAL(cuDevicePrimaryCtxRelease_v2);
    if (release_context == NULL)
        release_context = REAL(cuDevicePrimaryCtxRelease);
    CUcontext context = NULL;
    if (retain == NULL || release_context == NULL || !is_active(device) || retain(&context, device) != CUDA_SUCCESS)
        return NULL;
    release_context(device);
    return context;
}

/* A reset ends the primary context; so does the release of its last reference. */
static CUresult end_primary_context(device_call real, CUdevice device, bool certainly)
{
    if (real == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    CUcontext context = primary_context(device);
    launch_contexts_forget(context);
    uint64_t began = allocations_now();
    struct graph_change change = graph_memory_begin(GRAPH_CONTEXT_END, (uintptr_t)context);
    CUresult result = real(device);
    bool ended = result == CUDA_SUCCESS && (certainly || !is_active(device));
    graph_memory_end(change, ended);
    if (ended)
        drop_context(context, began);
    else if (context != NULL)
        launch_contexts_add(context);
    return result;
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    return end_primary_context(REAL(cuDevicePrimaryCtxReset), device, true);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    return end_primary_context(REAL(cuDevicePrimaryCtxReset_v2), device, true);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    return end_primary_context(REAL(cuDevicePrimaryCtxRelease), device, false);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    return end_primary_context(REAL(cuDevicePrimaryCtxRelease_v2), device, false);
}

static bool device_of_context(CUcontext context, CUdevice *device)
{
    __typeof__(&cuCtxPushCurrent_v2) push = REAL(cuCtxPushCurrent_v2);
    __typeof__(&cuCtxPopCurrent_v2) pop = REAL(cuCtxPopCurrent_v2);
    __typeof__(&cuCtxGetDevice) get_device = REAL(cuCtxGetDevice);
    if (push == NULL || pop == NULL || get_device == NULL || push(context) != CUDA_SUCCESS)
        return false;
    bool told = get_device(device) == CUDA_SUCCESS;
    pop(&context);
    return told;
}

static void move_allocations(CUcontext from, CUcontext to)
{
    uint64_t began = allocations_now();
    struct allocation allocation;
    size_t cursor = 0;
    while (allocations_take_next(is_of_context, &from, began, &cursor, &allocation)) {
        allocation.context = to;
        record(&allocation);
    }
    graph_memory_move(from, to);
}

/* Memory that was allocated in a green context is its primary context's. The green one retains that, and may do so last. */
CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
    __typeof__(&cuGreenCtxDestroy) real = REAL(cuGreenCtxDestroy);
    __typeof__(&cuCtxFromGreenCtx) get_context = REAL(cuCtxFromGreenCtx);
    __typeof__(&cuDevicePrimaryCtxRetain) retain = REAL(cuDevicePrimaryCtxRetain);
    CUcontext context = NULL, primary = NULL;
    CUdevice device;
    if (real == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (get_context == NULL || retain == NULL || get_context(&context, green) != CUDA_SUCCESS ||
        !device_of_context(context, &device) || retain(&primary, device) != CUDA_SUCCESS)
        return real(green);
    move_allocations(context, primary);
    launch_contexts_forget(context);
    CUresult result = real(green);
    if (result != CUDA_SUCCESS)
        launch_contexts_add(context);
    cuDevicePrimaryCtxRelease_v2(device);
    return result;
}
