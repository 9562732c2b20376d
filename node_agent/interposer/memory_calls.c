/* Linear memory: cuMemAlloc, cuMemAllocPitch, cuMemAllocManaged, cuMemFree. */
#include "account.h"
#include "reservation.h"
#include "symbols.h"

/* Without a current context the driver gives the right error itself. */
#define PASS_ON_WITHOUT_CONTEXT(place, call)                                                                           \
    if (!current_place(&(place)))                                                                                      \
    return call

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    __typeof__(&cuMemAlloc_v2) real = REAL(cuMemAlloc_v2);
    struct place place;
    if (real == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    PASS_ON_WITHOUT_CONTEXT(place, real(pointer, bytes));
    if (!reserve_bytes(&place, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = real(pointer, bytes);
    conclude(result, KIND_POINTER, result == CUDA_SUCCESS ? *pointer : 0, bytes, &place);
    return result;
}

CUresult cuMemAlloc(CUdeviceptr_v1 *pointer, unsigned int bytes)
{
    __typeof__(&cuMemAlloc) real = REAL(cuMemAlloc);
    struct place place;
    if (real == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    PASS_ON_WITHOUT_CONTEXT(place, real(pointer, bytes));
    if (!reserve_bytes(&place, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = real(pointer, bytes);
    conclude(result, KIND_POINTER, result == CUDA_SUCCESS ? *pointer : 0, bytes, &place);
    return result;
}

CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned int flags)
{
    __typeof__(&cuMemAllocManaged) real = REAL(cuMemAllocManaged);
    struct place place;
    if (real == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    PASS_ON_WITHOUT_CONTEXT(place, real(pointer, bytes, flags));
    if (!reserve_bytes(&place, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = real(pointer, bytes, flags);
    conclude(result, KIND_POINTER, result == CUDA_SUCCESS ? *pointer : 0, bytes, &place);
    return result;
}

/* The driver chooses the pitch. The rows are reserved without padding before, and the padding after the call. */
static CUresult conclude_pitched(CUresult result, CUdeviceptr pointer, uint64_t reserved, uint64_t allocated,
                                 const struct place *place, CUresult (*free_memory)(CUdeviceptr))
{
    if (result == CUDA_SUCCESS && allocated > reserved && !reserve_bytes(place, allocated - reserved)) {
        if (free_memory != NULL)
            free_memory(pointer);
        account_release(&place->gpu, reserved);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    conclude(result, KIND_POINTER, pointer, result == CUDA_SUCCESS && allocated > reserved ? allocated : reserved, place);
    return result;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned int element)
{
    __typeof__(&cuMemAllocPitch_v2) real = REAL(cuMemAllocPitch_v2);
    struct place place;
    uint64_t bytes;
    if (real == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    PASS_ON_WITHOUT_CONTEXT(place, real(pointer, pitch, width, height, element));
    if (__builtin_mul_overflow(width, height, &bytes) || !reserve_bytes(&place, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = real(pointer, pitch, width, height, element);
    bool done = result == CUDA_SUCCESS;
    return conclude_pitched(result, done ? *pointer : 0, bytes, done ? *pitch * height : 0, &place, REAL(cuMemFree_v2));
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *pointer, unsigned int *pitch, unsigned int width, unsigned int height,
                         unsigned int element)
{
    __typeof__(&cuMemAllocPitch) real = REAL(cuMemAllocPitch);
    struct place place;
    if (real == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    PASS_ON_WITHOUT_CONTEXT(place, real(pointer, pitch, width, height, element));
    uint64_t bytes = (uint64_t)width * height;
    if (!reserve_bytes(&place, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = real(pointer, pitch, width, height, element);
    bool done = result == CUDA_SUCCESS;
    uint64_t allocated = done ? (uint64_t)*pitch * height : 0;
    return conclude_pitched(result, done ? *pointer : 0, bytes, allocated, &place, REAL(cuMemFree_v2));
}

CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    __typeof__(&cuMemFree_v2) real = REAL(cuMemFree_v2);
    if (real == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    struct freeing freeing = begin_free(pointer);
    CUresult result = real(pointer);
    end_free(&freeing, result == CUDA_SUCCESS);
    return result;
}

CUresult cuMemFree(CUdeviceptr_v1 pointer)
{
    __typeof__(&cuMemFree) real = REAL(cuMemFree);
    if (real == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    struct freeing freeing = begin_free(pointer);
    CUresult result = real(pointer);
    end_free(&freeing, result == CUDA_SUCCESS);
    return result;
}
