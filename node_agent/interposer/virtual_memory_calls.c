/* Memory with its own handles: cuMemCreate, cuMemMap and their counterparts.
 *
 * The driver keeps a handle's memory while the handle is retained or mapped anywhere, so both are counted. Memory imported from another
 * process counts for its exporter. */
#include "reservation.h"
#include "symbols.h"

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                     unsigned long long flags)
{
    __typeof__(&cuMemCreate) real = REAL(cuMemCreate);
    struct place place;
    if (real == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (properties == NULL || is_on_host(properties->type, properties->location))
        return real(handle, bytes, properties, flags);
    if (!place_of_location(properties->location, &place))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!reserve_bytes(&place, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = real(handle, bytes, properties, flags);
    conclude(result, KIND_HANDLE, result == CUDA_SUCCESS ? *handle : 0, bytes, &place);
    return result;
}

static void unreference(CUmemGenericAllocationHandle handle, uint64_t older_than)
{
    struct allocation allocation;
    if (allocations_unreference(handle, older_than, &allocation))
        release(&allocation);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    __typeof__(&cuMemRelease) real = REAL(cuMemRelease);
    uint64_t began = allocations_now();
    CUresult result = real != NULL ? real(handle) : CUDA_ERROR_NOT_INITIALIZED;
    if (result == CUDA_SUCCESS)
        unreference(handle, began);
    return result;
}

struct range {
    uint64_t start, size;
};

static bool is_mapping_within(const struct allocation *allocation, const void *argument)
{
    const struct range *range = argument;
    return allocation->kind == KIND_MAPPING && allocation->key - range->start < range->size;
}

static bool is_mapping_of(const struct allocation *allocation, const void *address)
{
    return allocation->kind == KIND_MAPPING && (uintptr_t)address - allocation->key < allocation->bytes;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    __typeof__(&cuMemRetainAllocationHandle) real = REAL(cuMemRetainAllocationHandle);
    if (real == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    struct allocation mapping;
    bool found = allocations_find(is_mapping_of, address, &mapping);
    if (found)
        allocations_reference(mapping.handle);
    CUresult result = real(handle, address);
    if (found && (result != CUDA_SUCCESS || *handle != mapping.handle))
        unreference(mapping.handle, mapping.time);
    return result;
}

CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    __typeof__(&cuMemMap) real = REAL(cuMemMap);
    if (real == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    uint64_t began = allocations_now();
    allocations_reference(handle);
    CUresult result = real(pointer, bytes, offset, handle, flags);
    struct allocation mapping = {.kind = KIND_MAPPING, .key = pointer, .bytes = bytes, .handle = handle};
    if (result == CUDA_SUCCESS)
        record(&mapping);
    else
        unreference(handle, began);
    return result;
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes)
{
    __typeof__(&cuMemUnmap) real = REAL(cuMemUnmap);
    uint64_t began = allocations_now();
    CUresult result = real != NULL ? real(pointer, bytes) : CUDA_ERROR_NOT_INITIALIZED;
    if (result != CUDA_SUCCESS)
        return result;
    struct range range = {pointer, bytes};
    struct allocation mapping;
    size_t cursor = 0;
    while (allocations_take_next(is_mapping_within, &range, began, &cursor, &mapping))
        release(&mapping);
    return result;
}
