/* Arrays and mipmapped arrays, whose size follows from their description. */
#include "account.h"
#include "reservation.h"
#include "symbols.h"

static uint64_t bytes_of_format(int format)
{
    switch (format) {
    case 0x01: /* 8 bits, unsigned and signed */
    case 0x08:
        return 1;
    case 0x02: /* 16 bits, and half */
    case 0x09:
    case 0x10:
        return 2;
    default: /* 32 bits; compressed and planar formats have less for a channel */
        return 4;
    }
}

static uint64_t product(uint64_t a, uint64_t b)
{
    uint64_t result;
    return __builtin_mul_overflow(a, b, &result) ? UINT64_MAX : result;
}

static uint64_t at_least_1(uint64_t length)
{
    return length != 0 ? length : 1;
}

static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *description, unsigned int level)
{
    if (description->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
        return 0;
    uint64_t texels = product(product(at_least_1(description->Width >> level), at_least_1(description->Height >> level)),
                              at_least_1(description->Depth >> level));
    return product(texels, bytes_of_format(description->Format) * description->NumChannels);
}

/* The driver pads. What it really took is counted after the call, if the driver can tell and the quota holds it. */
static CUresult conclude_array(CUresult result, int kind, void *array, uint64_t bytes, uint64_t required,
                               const struct place *place, CUresult (*destroy)(void *))
{
    if (result == CUDA_SUCCESS && required > bytes) {
        if (!reserve_bytes(place, required - bytes)) {
            destroy(array);
            account_release(&place->gpu, bytes);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        bytes = required;
    }
    conclude(result, kind, (uintptr_t)array, bytes, place);
    return result;
}

static CUresult destroy_array(void *array)
{
    __typeof__(&cuArrayDestroy) real = REAL(cuArrayDestroy);
    return real != NULL ? real(array) : CUDA_ERROR_NOT_INITIALIZED;
}

static CUresult destroy_mipmapped_array(void *array)
{
    __typeof__(&cuMipmappedArrayDestroy) real = REAL(cuMipmappedArrayDestroy);
    return real != NULL ? real(array) : CUDA_ERROR_NOT_INITIALIZED;
}

static uint64_t required_for_array(CUarray array, CUdevice device)
{
    CUDA_ARRAY_MEMORY_REQUIREMENTS requirements;
    __typeof__(&cuArrayGetMemoryRequirements) real = REAL(cuArrayGetMemoryRequirements);
    return real != NULL && real(&requirements, array, device) == CUDA_SUCCESS ? requirements.size : 0;
}

static uint64_t required_for_mipmapped_array(CUmipmappedArray array, CUdevice device)
{
    CUDA_ARRAY_MEMORY_REQUIREMENTS requirements;
    __typeof__(&cuMipmappedArrayGetMemoryRequirements) real = REAL(cuMipmappedArrayGetMemoryRequirements);
    return real != NULL && real(&requirements, array, device) == CUDA_SUCCESS ? requirements.size : 0;
}

#define CREATE_ARRAY(name, width, height, depth, flags)                                                                \
    __typeof__(&name) real = REAL(name);                                                                               \
    struct place place;                                                                                                \
    if (real == NULL)                                                                                                  \
        return CUDA_ERROR_NOT_INITIALIZED;                                                                             \
    if (array == NULL || description == NULL || !current_place(&place))                                                \
        return real(array, description);                                                                               \
    CUDA_ARRAY3D_DESCRIPTOR full = {width, height, depth, description->Format, description->NumChannels, flags};       \
    uint64_t bytes = level_bytes(&full, 0);                                                                            \
    if (!reserve_bytes(&place, bytes))                                                                                 \
        return CUDA_ERROR_OUT_OF_MEMORY;                                                                               \
    CUresult result = real(array, description);                                                                        \
    uint64_t required = result == CUDA_SUCCESS && bytes != 0 ? required_for_array(*array, place.device) : 0;           \
    return conclude_array(result, KIND_ARRAY, result == CUDA_SUCCESS ? *array : NULL, bytes, required, &place, destroy_array)

CUresult cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *description)
{
    CREATE_ARRAY(cuArrayCreate, description->Width, description->Height, 0, 0);
}

CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *description)
{
    CREATE_ARRAY(cuArrayCreate_v2, description->Width, description->Height, 0, 0);
}

CUresult cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *description)
{
    CREATE_ARRAY(cuArray3DCreate, description->Width, description->Height, description->Depth, description->Flags);
}

CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *description)
{
    CREATE_ARRAY(cuArray3DCreate_v2, description->Width, description->Height, description->Depth, description->Flags);
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *description, unsigned int levels)
{
    __typeof__(&cuMipmappedArrayCreate) real = REAL(cuMipmappedArrayCreate);
    struct place place;
    if (real == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (array == NULL || description == NULL || !current_place(&place))
        return real(array, description, levels);
    uint64_t bytes = 0;
    for (unsigned int level = 0; level < levels && level < 64; level++)
        if (__builtin_add_overflow(bytes, level_bytes(description, level), &bytes))
            bytes = UINT64_MAX / 2;
    if (!reserve_bytes(&place, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = real(array, description, levels);
    bool done = result == CUDA_SUCCESS;
    uint64_t required = done && bytes != 0 ? required_for_mipmapped_array(*array, place.device) : 0;
    return conclude_array(result, KIND_MIPMAPPED_ARRAY, done ? *array : NULL, bytes, required, &place, destroy_mipmapped_array);
}

static CUresult destroy(int kind, void *array, CUresult (*destroy_kind)(void *))
{
    struct allocation allocation;
    bool taken = allocations_take(kind, (uintptr_t)array, &allocation);
    CUresult result = destroy_kind(array);
    conclude_free(result, taken, &allocation);
    return result;
}

CUresult cuArrayDestroy(CUarray array)
{
    return destroy(KIND_ARRAY, array, destroy_array);
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
    return destroy(KIND_MIPMAPPED_ARRAY, array, destroy_mipmapped_array);
}
