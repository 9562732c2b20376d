/* Stream-ordered memory: cuMemAllocAsync, cuMemAllocFromPoolAsync, cuMemFreeAsync, pools, and the calls that let a pool shrink. */
#include "captures.h"
#include "pools.h"
#include "reservation.h"
#include "symbols.h"

static bool still(struct capture before, CUstream stream)
{
    struct capture now = capture_of(stream);
    return before.active && now.active && now.number == before.number;
}

typedef CUresult (*free_function)(CUdeviceptr, CUstream);

/* `pool` NULL: the device's current pool. False and no refusal: the call passes uncounted. */
static bool begin(CUmemoryPool pool, size_t bytes, CUstream stream, struct allocation *allocation, CUresult *refusal)
{
    struct place place;
    *refusal = CUDA_SUCCESS;
    enum pool_memory memory = pool != NULL ? memory_of_pool(pool, &place) : POOL_UNKNOWN;
    if (memory == POOL_ON_HOST)
        return false;
    /* A pool that nothing is known of counts on the stream's device. */
    if (memory == POOL_UNKNOWN && !place_of_stream(stream, &place)) {
        if (!is_default_stream(stream))
            *refusal = CUDA_ERROR_OUT_OF_MEMORY;
        return false; /* without a current context the driver gives the right error itself */
    }
    __typeof__(&cuDeviceGetMemPool) get_pool = REAL(cuDeviceGetMemPool);
    if (pool == NULL && (get_pool == NULL || get_pool(&pool, place.device) != CUDA_SUCCESS))
        return false;
    struct place current;
    CUcontext context = current_place(&current) && current.device == place.device ? current.context : NULL;
    *allocation = (struct allocation){.kind = KIND_POINTER, .bytes = bytes, .gpu = place.gpu, .context = context};
    allocation->pool = pool_number(pool, &place);
    bool granted = allocation->pool != 0 && reserve_in_pool(allocation->pool, bytes);
    if (!granted)
        *refusal = CUDA_ERROR_OUT_OF_MEMORY;
    return granted;
}

static CUresult finish(CUresult result, CUdeviceptr *pointer, CUstream stream, struct allocation *allocation,
                       free_function free_memory)
{
    if (result != CUDA_SUCCESS) {
        release(allocation);
        return result;
    }
    /* The pool may have grown by more than was asked for. */
    if (!pool_settle(allocation->pool)) {
        if (free_memory != NULL)
            free_memory(*pointer, stream);
        release(allocation);
        pools_trim();
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    allocation->key = *pointer;
    record(allocation);
    return result;
}

/* A call that was made in a capture. If the capture is over, the driver may have allocated at once. */
static CUresult finish_captured(CUresult result, struct capture before, CUmemoryPool pool, CUdeviceptr *pointer, size_t bytes,
                                CUstream stream, free_function free_memory)
{
    struct allocation allocation = {.pool = 0};
    CUresult refusal;
    if (result != CUDA_SUCCESS || still(before, stream))
        return result;
    if (begin(pool, bytes, stream, &allocation, &refusal))
        return finish(result, pointer, stream, &allocation, free_memory);
    if (refusal == CUDA_SUCCESS)
        return result;
    if (free_memory != NULL)
        free_memory(*pointer, stream);
    if (allocation.pool != 0)
        pool_trim(allocation.pool);
    return refusal;
}

#define ALLOCATE(name, free_name, pool, default_stream, ...)                                                           \
    __typeof__(&name) real = REAL(name);                                                                               \
    struct allocation allocation;                                                                                      \
    CUresult refusal;                                                                                                  \
    if (real == NULL)                                                                                                  \
        return CUDA_ERROR_NOT_INITIALIZED;                                                                             \
    CUstream used = stream != NULL ? stream : default_stream;                                                          \
    struct capture capture = capture_of(used);                                                                         \
    if (capture.active)                                                                                                \
        return finish_captured(real(__VA_ARGS__), capture, pool, pointer, bytes, used, REAL(free_name));               \
    if (!begin(pool, bytes, used, &allocation, &refusal))                                                              \
        return refusal != CUDA_SUCCESS ? refusal : real(__VA_ARGS__);                                                  \
    return finish(real(__VA_ARGS__), pointer, stream, &allocation, REAL(free_name))

CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    ALLOCATE(cuMemAllocAsync, cuMemFreeAsync, NULL, NULL, pointer, bytes, stream);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    ALLOCATE(cuMemAllocAsync_ptsz, cuMemFreeAsync_ptsz, NULL, CU_STREAM_PER_THREAD, pointer, bytes, stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    ALLOCATE(cuMemAllocFromPoolAsync, cuMemFreeAsync, pool, NULL, pointer, bytes, pool, stream);
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    ALLOCATE(cuMemAllocFromPoolAsync_ptsz, cuMemFreeAsync_ptsz, pool, CU_STREAM_PER_THREAD, pointer, bytes, pool, stream);
}

static CUresult free_with(free_function real, CUdeviceptr pointer, CUstream stream, CUstream default_stream)
{
    if (real == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    CUstream used = stream != NULL ? stream : default_stream;
    struct capture capture = capture_of(used);
    struct freeing freeing = begin_free(pointer);
    CUresult result = real(pointer, stream);
    /* A captured free becomes a node, and frees when its graph is launched. */
    bool captured = capture.active && still(capture, used);
    end_free(&freeing, !captured && result == CUDA_SUCCESS);
    return result;
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream)
{
    return free_with(REAL(cuMemFreeAsync), pointer, stream, NULL);
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream)
{
    return free_with(REAL(cuMemFreeAsync_ptsz), pointer, stream, CU_STREAM_PER_THREAD);
}

/* False: the table has no place for the pool. A pool whose device is not told here is recorded at its first allocation. */
static bool record_pool(CUmemoryPool pool, int type, CUmemLocation location)
{
    struct place place;
    if (is_on_host(type, location))
        return host_pool_number(pool) != 0;
    bool told = location.type == CU_MEM_LOCATION_TYPE_DEVICE && place_of_device(location.id, &place);
    return !told || pool_number(pool, &place) != 0;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    __typeof__(&cuMemPoolCreate) real = REAL(cuMemPoolCreate);
    __typeof__(&cuMemPoolDestroy) destroy = REAL(cuMemPoolDestroy);
    if (real == NULL || destroy == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult result = real(pool, properties);
    if (result != CUDA_SUCCESS || record_pool(*pool, properties->allocType, properties->location))
        return result;
    destroy(*pool);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* CUDA 13: the driver's own pools for a location. Nothing else tells where they lie. */
static CUresult found_pool(CUresult result, CUmemoryPool *pool, const CUmemLocation *location, int type)
{
    return result != CUDA_SUCCESS || record_pool(*pool, type, *location) ? result : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, const CUmemLocation *location, int type)
{
    __typeof__(&cuMemGetDefaultMemPool) real = REAL(cuMemGetDefaultMemPool);
    return real != NULL ? found_pool(real(pool, location, type), pool, location, type) : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, const CUmemLocation *location, int type)
{
    __typeof__(&cuMemGetMemPool) real = REAL(cuMemGetMemPool);
    return real != NULL ? found_pool(real(pool, location, type), pool, location, type) : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    __typeof__(&cuMemPoolDestroy) real = REAL(cuMemPoolDestroy);
    if (real == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    uint64_t number = pool_forget(pool);
    CUresult result = real(pool);
    pool_forgotten(number, result == CUDA_SUCCESS);
    return result;
}

static CUresult settled(CUresult result)
{
    pools_settle();
    return result;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes)
{
    __typeof__(&cuMemPoolTrimTo) real = REAL(cuMemPoolTrimTo);
    return real != NULL ? settled(real(pool, bytes)) : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    __typeof__(&cuDeviceGraphMemTrim) real = REAL(cuDeviceGraphMemTrim);
    return real != NULL ? settled(real(device)) : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    __typeof__(&cuStreamSynchronize) real = REAL(cuStreamSynchronize);
    return real != NULL ? settled(real(stream)) : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuStreamSynchronize_ptsz(CUstream stream)
{
    __typeof__(&cuStreamSynchronize_ptsz) real = REAL(cuStreamSynchronize_ptsz);
    return real != NULL ? settled(real(stream)) : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuCtxSynchronize(void)
{
    __typeof__(&cuCtxSynchronize) real = REAL(cuCtxSynchronize);
    return real != NULL ? settled(real()) : CUDA_ERROR_NOT_INITIALIZED;
}
