/* Streams and pools. A pool takes memory in units of 2 MiB and keeps what is freed: until a synchronisation, and below its release
 * threshold also after it. */
#include <stdlib.h>

#include "fake_driver.h"

struct pool {
    int device;
    bool destroyed;
    uint64_t reserved, used, threshold;
    int type, location;
};

static struct stream *capturing[64]; /* under the driver's lock */

enum { MOST_MADE = 4096, PINNED = 1, MANAGED = 2, LOCATION_DEVICE = 1, LOCATION_HOST = 2, HOST = -1 };

static struct pool defaults[MOST_DEVICES], managed = {.type = MANAGED}, host = {.device = HOST, .type = PINNED, .location = LOCATION_HOST};
static struct pool *made[MOST_MADE];
static int made_count;

static struct pool *default_pool(int device)
{
    defaults[device].device = device;
    defaults[device].type = PINNED;
    defaults[device].location = LOCATION_DEVICE;
    return &defaults[device];
}

FAKE CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    (void)flags;
    *stream = calloc(1, sizeof **stream);
    (*stream)->context = current();
    return current() != NULL ? SUCCESS : INVALID_CONTEXT;
}

FAKE CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    *context = (uint64_t)stream > 2 ? stream->context : current();
    return SUCCESS;
}

struct graph *captured_graph(struct stream *stream)
{
    return (uint64_t)stream > 2 ? stream->capturing : NULL;
}

FAKE CUresult cuStreamIsCapturing(CUstream stream, int *status)
{
    *status = captured_graph(stream) != NULL;
    before_return("a look at the capture");
    return SUCCESS;
}

FAKE CUresult cuStreamGetCaptureInfo_v2(CUstream stream, int *status, uint64_t *number, CUgraph *graph, void *after, size_t *count)
{
    (void)graph, (void)after, (void)count;
    *number = (uint64_t)stream > 2 ? stream->captures : 0;
    return cuStreamIsCapturing(stream, status);
}

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags);

static CUresult begin_capture(CUstream stream, CUgraph graph)
{
    driver_lock();
    for (size_t i = 0; i < sizeof capturing / sizeof *capturing; i++) {
        if (capturing[i] == NULL) {
            capturing[i] = stream;
            break;
        }
    }
    stream->invalidated = false;
    stream->captures++;
    stream->capturing = graph;
    driver_unlock();
    return SUCCESS;
}

FAKE CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
    CUgraph graph;
    (void)mode;
    CUresult result = cuGraphCreate(&graph, 0);
    return result == SUCCESS ? begin_capture(stream, graph) : result;
}

/* Since CUDA 13.3. */
FAKE CUresult cuStreamBeginRecaptureToGraph(CUstream stream, int mode, CUgraph graph, void *callback, void *argument)
{
    (void)mode, (void)callback, (void)argument;
    return begin_capture(stream, graph);
}

static void forget_capture(struct stream *stream)
{
    for (size_t i = 0; i < sizeof capturing / sizeof *capturing; i++)
        if (capturing[i] == stream)
            capturing[i] = NULL;
}

/* Synchronizing a context invalidates the captures in it. */
static bool invalidates_captures(struct context *context)
{
    bool any = false;
    driver_lock();
    for (size_t i = 0; i < sizeof capturing / sizeof *capturing; i++)
        if (capturing[i] != NULL && capturing[i]->context == context)
            any = capturing[i]->invalidated = true;
    driver_unlock();
    return any;
}

FAKE CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    driver_lock();
    *graph = stream->capturing;
    stream->capturing = NULL;
    forget_capture(stream);
    driver_unlock();
    return stream->invalidated ? CAPTURE_INVALIDATED : SUCCESS;
}

FAKE CUresult cuStreamDestroy_v2(CUstream stream)
{
    driver_lock();
    forget_capture(stream);
    driver_unlock();
    free(stream);
    return SUCCESS;
}

FAKE CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, int device)
{
    if (device_of(device) == NULL)
        return INVALID_DEVICE;
    *pool = default_pool(device);
    return SUCCESS;
}

FAKE CUresult cuDeviceGetMemPool(CUmemoryPool *pool, int device)
{
    return cuDeviceGetDefaultMemPool(pool, device);
}

FAKE CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, const int *location, int type)
{
    if (location[0] == LOCATION_DEVICE && type == PINNED)
        return cuDeviceGetDefaultMemPool(pool, location[1]);
    *pool = type == MANAGED ? &managed : &host;
    return SUCCESS;
}

FAKE CUresult cuMemGetMemPool(CUmemoryPool *pool, const int *location, int type)
{
    return cuMemGetDefaultMemPool(pool, location, type);
}

FAKE CUresult cuMemPoolCreate(CUmemoryPool *pool, const int *properties)
{
    /* Managed memory that was touched on the first device, wherever it prefers to be. */
    int device = properties[2] == LOCATION_DEVICE ? properties[3] : properties[0] == MANAGED ? 0 : HOST;
    if (device != HOST && device_of(device) == NULL)
        return INVALID_DEVICE;
    *pool = calloc(1, sizeof **pool);
    **pool = (struct pool){.device = device, .type = properties[0], .location = properties[2]};
    driver_lock();
    made[made_count++ % MOST_MADE] = *pool;
    driver_unlock();
    return SUCCESS;
}

static bool take_for(const struct pool *pool, int64_t bytes)
{
    return pool->device == HOST || take(pool->device, bytes);
}

static void shrink(struct pool *pool, uint64_t keep)
{
    uint64_t needed = (pool->used + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
    uint64_t target = needed > keep ? needed : keep;
    if (pool->reserved > target) {
        take_for(pool, -(int64_t)(pool->reserved - target));
        pool->reserved = target;
    }
}

FAKE CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    driver_lock();
    shrink(pool, keep);
    driver_unlock();
    return SUCCESS;
}

FAKE CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    driver_lock();
    pool->destroyed = true;
    shrink(pool, 0);
    driver_unlock();
    before_return("cuMemPoolDestroy");
    return SUCCESS;
}

FAKE CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value)
{
    if (attribute != 4)
        return INVALID_VALUE;
    pool->threshold = *(uint64_t *)value;
    return SUCCESS;
}

FAKE CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value)
{
    if (attribute != 5 && attribute != 7)
        return INVALID_VALUE;
    if (pool->destroyed)
        abort(); /* a real driver may do worse with a handle that is no more */
    *(uint64_t *)value = attribute == 5 ? pool->reserved : pool->used;
    return SUCCESS;
}

void pools_synchronize(void)
{
    driver_lock();
    for (int i = 0; i < device_count(); i++)
        shrink(default_pool(i), defaults[i].threshold);
    shrink(&managed, managed.threshold);
    for (int i = 0; i < made_count && i < MOST_MADE; i++)
        shrink(made[i], made[i]->threshold);
    driver_unlock();
}

FAKE CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    if (bytes == 0 || bytes > INT64_MAX / 2)
        return bytes == 0 ? INVALID_VALUE : OUT_OF_MEMORY;
    if (captured_graph(stream) != NULL) {
        *pointer = add_allocation_node(captured_graph(stream), pool->type, pool->location, pool->device, bytes);
        return SUCCESS;
    }
    driver_lock();
    uint64_t needed = (pool->used + bytes + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
    uint64_t growth = needed > pool->reserved ? needed - pool->reserved : 0;
    bool fits = growth == 0 || take_for(pool, (int64_t)growth);
    if (fits) {
        pool->reserved += growth;
        pool->used += bytes;
    }
    driver_unlock();
    if (!fits)
        return OUT_OF_MEMORY;
    *pointer = new_address(bytes);
    remember((struct block){.key = *pointer, .bytes = bytes, .device = pool->device, .pool = pool});
    return SUCCESS;
}

FAKE CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    CUcontext context;
    cuStreamGetCtx(stream, &context);
    return context != NULL ? cuMemAllocFromPoolAsync(pointer, bytes, default_pool(context->device), stream) : INVALID_CONTEXT;
}

void pool_unused(struct block *block)
{
    driver_lock();
    block->pool->used -= block->bytes;
    if (block->pool->destroyed)
        shrink(block->pool, 0);
    driver_unlock();
}

CUresult cuMemFree_v2(CUdeviceptr pointer);

FAKE CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream)
{
    /* Nothing but the memory of graphs can be freed in a capture. */
    if (captured_graph(stream) != NULL && is_block_of_no_graph(pointer))
        return INVALID_VALUE;
    if (captured_graph(stream) != NULL) {
        add_free_node(captured_graph(stream), pointer);
        return SUCCESS;
    }
    return pointer == 0 ? INVALID_VALUE : cuMemFree_v2(pointer);
}

FAKE CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    return cuMemAllocAsync(pointer, bytes, stream);
}

FAKE CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream)
{
    return cuMemFreeAsync(pointer, stream);
}

FAKE CUresult cuStreamSynchronize(CUstream stream)
{
    if ((uint64_t)stream > 2)
        wait_until(stream->busy_until);
    else if (current() != NULL)
        wait_until(current()->busy_until);
    pools_synchronize();
    return SUCCESS;
}

FAKE CUresult cuCtxSynchronize(void)
{
    if (current() != NULL && invalidates_captures(current()))
        return CAPTURE_UNSUPPORTED;
    if (current() != NULL)
        wait_until(current()->busy_until);
    pools_synchronize();
    return SUCCESS;
}
