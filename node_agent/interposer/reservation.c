#include "reservation.h"

#include "account.h"
#include "pools.h"

bool reserve_bytes(const struct place *place, uint64_t bytes)
{
    pools_settle();
    if (account_reserve(&place->gpu, bytes))
        return true;
    pools_trim();
    return account_reserve(&place->gpu, bytes);
}

bool reserve_in_pool(uint64_t pool, uint64_t bytes)
{
    pools_settle();
    if (pool_reserve(pool, bytes))
        return true;
    pools_trim();
    return pool_reserve(pool, bytes);
}

void release(const struct allocation *allocation)
{
    struct allocation handle;
    if (allocation->kind == KIND_MAPPING) {
        /* The mapping kept the handle from being handed out again until now: a newer entry is another's. */
        if (allocations_unreference(allocation->handle, allocation->time, &handle))
            release(&handle);
    } else if (allocation->pool != 0) {
        pool_release(allocation->pool, allocation->bytes);
    } else {
        account_release(&allocation->gpu, allocation->bytes);
    }
}

void record(const struct allocation *allocation)
{
    struct allocation displaced;
    if (allocations_add(allocation, &displaced))
        release(&displaced);
}

void conclude(CUresult result, int kind, uint64_t key, uint64_t bytes, const struct place *place)
{
    if (result != CUDA_SUCCESS) {
        account_release(&place->gpu, bytes);
        return;
    }
    struct allocation allocation = {.kind = kind, .key = key, .bytes = bytes, .gpu = place->gpu};
    if (kind == KIND_HANDLE)
        allocation.references = 1;
    else
        allocation.context = place->context;
    record(&allocation);
}

void conclude_free(CUresult result, bool taken, const struct allocation *allocation)
{
    if (!taken)
        return;
    if (result == CUDA_SUCCESS)
        release(allocation);
    else
        record(allocation);
}

struct freeing begin_free(CUdeviceptr pointer)
{
    struct freeing freeing = {.taken = false};
    freeing.taken = allocations_take(KIND_POINTER, pointer, &freeing.allocation);
    if (!freeing.taken)
        freeing.of_graph = graph_memory_begin(GRAPH_FREE, pointer);
    return freeing;
}

void end_free(const struct freeing *freeing, bool freed)
{
    if (freeing->taken && freed)
        release(&freeing->allocation);
    else if (freeing->taken)
        record(&freeing->allocation);
    graph_memory_end(freeing->of_graph, freed);
}
