#include "gpus.h"

#include <stdatomic.h>
#include <string.h>

#include "symbols.h"

enum { MOST_DEVICES = 64 };

/* A device's UUID never changes in a process. Its halves are written before the flag. */
static struct {
    atomic_bool known;
    _Atomic uint64_t halves[2];
} uuids[MOST_DEVICES];

static bool uuid_of(CUdevice device, CUuuid *gpu)
{
    if (device < 0 || device >= MOST_DEVICES)
        return false;
    uint64_t halves[2];
    if (!atomic_load(&uuids[device].known)) {
        __typeof__(&cuDeviceGetUuid) real = REAL(cuDeviceGetUuid);
        if (real == NULL || real(gpu, device) != CUDA_SUCCESS)
            return false;
        memcpy(halves, gpu, sizeof halves);
        atomic_store(&uuids[device].halves[0], halves[0]);
        atomic_store(&uuids[device].halves[1], halves[1]);
        atomic_store(&uuids[device].known, true);
        return true;
    }
    halves[0] = atomic_load(&uuids[device].halves[0]);
    halves[1] = atomic_load(&uuids[device].halves[1]);
    memcpy(gpu, halves, sizeof halves);
    return true;
}

bool place_of_device(CUdevice device, struct place *place)
{
    place->device = device;
    place->context = NULL;
    return uuid_of(device, &place->gpu);
}

bool current_place(struct place *place)
{
    __typeof__(&cuCtxGetCurrent) get_current = REAL(cuCtxGetCurrent);
    __typeof__(&cuCtxGetDevice) get_device = REAL(cuCtxGetDevice);
    CUdevice device;
    CUcontext context = NULL;
    if (get_current == NULL || get_device == NULL || get_current(&context) != CUDA_SUCCESS || context == NULL)
        return false;
    if (get_device(&device) != CUDA_SUCCESS || !place_of_device(device, place))
        return false;
    place->context = context;
    return true;
}

bool is_default_stream(CUstream stream)
{
    return (uintptr_t)stream <= 2; /* NULL, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD */
}

bool is_on_host(int type, CUmemLocation location)
{
    return type != CU_MEM_ALLOCATION_TYPE_MANAGED && location.type >= CU_MEM_LOCATION_TYPE_HOST &&
           location.type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

bool place_of_location(CUmemLocation location, struct place *place)
{
    return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? place_of_device(location.id, place) : current_place(place);
}

bool place_of_stream(CUstream stream, struct place *place)
{
    __typeof__(&cuStreamGetCtx) get_context = REAL(cuStreamGetCtx);
    __typeof__(&cuCtxGetCurrent) get_current = REAL(cuCtxGetCurrent);
    __typeof__(&cuCtxPushCurrent_v2) push = REAL(cuCtxPushCurrent_v2);
    __typeof__(&cuCtxPopCurrent_v2) pop = REAL(cuCtxPopCurrent_v2);
    CUcontext context = NULL, current = NULL;
    if (is_default_stream(stream) || get_context == NULL || get_current == NULL || push == NULL || pop == NULL ||
        get_context(stream, &context) != CUDA_SUCCESS || get_current(&current) != CUDA_SUCCESS || context == current)
        return current_place(place);
    if (push(context) != CUDA_SUCCESS)
        return false;
    bool found = current_place(place);
    pop(&context);
    return found;
}

static int hexadecimal_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool gpu_of_nvml_name(const char *name, CUuuid *gpu)
{
    if (strncmp(name, "GPU-", 4) != 0)
        return false;
    size_t digits = 0;
    for (const char *c = name + 4; digits < 2 * sizeof gpu->bytes; c++) {
        if (*c == '-')
            continue;
        int digit = hexadecimal_digit(*c);
        if (digit < 0)
            return false;
        gpu->bytes[digits / 2] = (unsigned char)(gpu->bytes[digits / 2] << 4 | digit);
        digits++;
    }
    return true;
}
