/* The memory that a context sets aside by its limits: stacks of threads, the buffer of printf, and the heap of malloc in kernels.
 *
 * The defaults are part of what the agent charges each process for the driver itself. What a limit adds counts from the call that sets it,
 * though the driver may take it later, until the context ends. */
#include "account.h"
#include "reservation.h"
#include "symbols.h"

static const uint64_t defaults[LIMIT_COUNT] = {
    [CU_LIMIT_STACK_SIZE] = 1024,
    [CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20,
    [CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20,
};

/* The driver takes a stack for each thread that the device can run at a time. */
static uint64_t threads_of(CUdevice device)
{
    __typeof__(&cuDeviceGetAttribute) get_attribute = REAL(cuDeviceGetAttribute);
    int multiprocessors, threads;
    if (get_attribute == NULL ||
        get_attribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) != CUDA_SUCCESS ||
        get_attribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device) != CUDA_SUCCESS)
        return UINT64_MAX;
    return (uint64_t)multiprocessors * (uint64_t)threads;
}

static uint64_t bytes_above_default(int limit, uint64_t value, CUdevice device)
{
    uint64_t bytes = value > defaults[limit] ? value - defaults[limit] : 0;
    if (limit == CU_LIMIT_STACK_SIZE && __builtin_mul_overflow(bytes, threads_of(device), &bytes))
        bytes = UINT64_MAX;
    return bytes;
}

CUresult cuCtxSetLimit(int limit, size_t value)
{
    __typeof__(&cuCtxSetLimit) real = REAL(cuCtxSetLimit);
    struct place place;
    if (real == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (limit < 0 || limit >= LIMIT_COUNT || !current_place(&place))
        return real(limit, value);
    uint64_t bytes = bytes_above_default(limit, value, place.device);
    struct allocation before = {.bytes = 0};
    bool set_before = allocations_take(KIND_LIMIT + limit, (uintptr_t)place.context, &before);
    uint64_t growth = bytes > before.bytes ? bytes - before.bytes : 0;
    bool granted = reserve_bytes(&place, growth);
    CUresult result = granted ? real(limit, value) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS) {
        account_release(&place.gpu, before.bytes + growth - bytes);
        conclude(result, KIND_LIMIT + limit, (uintptr_t)place.context, bytes, &place);
        return result;
    }
    if (granted)
        account_release(&place.gpu, growth);
    conclude_free(result, set_before, &before);
    return result;
}
