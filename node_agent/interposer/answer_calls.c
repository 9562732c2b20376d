/* What a program is told of a GPU's memory: the container's quota, and how much of it is free. */
#include "account.h"
#include "pools.h"
#include "reservation.h"
#include "symbols.h"

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

struct answer {
    uint64_t total, free, used;
};

/* `total` and `free` are the driver's. They stay as they are if no quota is known. */
static struct answer within_quota(const CUuuid *gpu, uint64_t total, uint64_t free)
{
    struct usage usage;
    pools_settle();
    if (!account_usage(gpu, &usage))
        return (struct answer){total, free, total - free};
    total = least(total, usage.quota_bytes);
    uint64_t left = total > usage.used_bytes ? total - usage.used_bytes : 0;
    return (struct answer){total, least(left, free), least(usage.used_bytes, total)};
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    __typeof__(&cuMemGetInfo_v2) real = REAL(cuMemGetInfo_v2);
    CUresult result = real != NULL ? real(free, total) : CUDA_ERROR_NOT_INITIALIZED;
    struct place place;
    if (result == CUDA_SUCCESS && current_place(&place)) {
        struct answer answer = within_quota(&place.gpu, *total, *free);
        *free = answer.free;
        *total = answer.total;
    }
    return result;
}

CUresult cuMemGetInfo(unsigned int *free, unsigned int *total)
{
    __typeof__(&cuMemGetInfo) real = REAL(cuMemGetInfo);
    CUresult result = real != NULL ? real(free, total) : CUDA_ERROR_NOT_INITIALIZED;
    struct place place;
    if (result == CUDA_SUCCESS && current_place(&place)) {
        struct answer answer = within_quota(&place.gpu, *total, *free);
        *free = (unsigned int)answer.free;
        *total = (unsigned int)answer.total;
    }
    return result;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    __typeof__(&cuDeviceTotalMem_v2) real = REAL(cuDeviceTotalMem_v2);
    CUresult result = real != NULL ? real(bytes, device) : CUDA_ERROR_NOT_INITIALIZED;
    struct place place;
    if (result == CUDA_SUCCESS && place_of_device(device, &place))
        *bytes = within_quota(&place.gpu, *bytes, 0).total;
    return result;
}

CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device)
{
    __typeof__(&cuDeviceTotalMem) real = REAL(cuDeviceTotalMem);
    CUresult result = real != NULL ? real(bytes, device) : CUDA_ERROR_NOT_INITIALIZED;
    struct place place;
    if (result == CUDA_SUCCESS && place_of_device(device, &place))
        *bytes = (unsigned int)within_quota(&place.gpu, *bytes, 0).total;
    return result;
}

static bool nvml_gpu(nvmlDevice_t device, CUuuid *gpu)
{
    __typeof__(&nvmlDeviceGetUUID) get_uuid = REAL(nvmlDeviceGetUUID);
    char name[96];
    return get_uuid != NULL && get_uuid(device, name, sizeof name) == NVML_SUCCESS && gpu_of_nvml_name(name, gpu);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    __typeof__(&nvmlDeviceGetMemoryInfo) real = REAL(nvmlDeviceGetMemoryInfo);
    nvmlReturn_t result = real != NULL ? real(device, memory) : NVML_ERROR_UNINITIALIZED;
    CUuuid gpu;
    if (result == NVML_SUCCESS && nvml_gpu(device, &gpu)) {
        struct answer answer = within_quota(&gpu, memory->total, memory->free);
        *memory = (nvmlMemory_t){.total = answer.total, .free = answer.free, .used = answer.used};
    }
    return result;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    __typeof__(&nvmlDeviceGetMemoryInfo_v2) real = REAL(nvmlDeviceGetMemoryInfo_v2);
    nvmlReturn_t result = real != NULL ? real(device, memory) : NVML_ERROR_UNINITIALIZED;
    CUuuid gpu;
    struct usage usage;
    if (result == NVML_SUCCESS && nvml_gpu(device, &gpu) && account_usage(&gpu, &usage)) {
        /* The driver's own reserve is no part of the quota. */
        struct answer answer = within_quota(&gpu, memory->total - memory->reserved, memory->free);
        memory->total = answer.total;
        memory->reserved = 0;
        memory->free = answer.free;
        memory->used = answer.used;
    }
    return result;
}
