/* Arrays and mipmapped arrays.
 *
 * The driver pads them. It tells how much an array takes only if the array's memory is to be mapped later, so it is asked first about such an
 * array of the same description, which takes none. */
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

static uint64_t rounded_up(uint64_t length, uint64_t unit)
{
    return length > UINT64_MAX - unit ? UINT64_MAX : (length + unit - 1) / unit * unit;
}

/* To the blocks of `length` rows or slices: a power of two, as many as a small array has. */
static uint64_t in_blocks(uint64_t length, uint64_t least, uint64_t most)
{
    uint64_t block = least;
    while (block < length && block < most)
        block *= 2;
    return rounded_up(length, block);
}

/* The most that a level takes in the block-linear layout: rows of 64 bytes, blocks of 8 to 256 rows and of 1 to 32 slices. A layered array
 * and a cube have `Depth` layers at each level. */
static uint64_t most_bytes_of_level(const CUDA_ARRAY3D_DESCRIPTOR *description, unsigned int level)
{
    bool layered = (description->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
    uint64_t texel = bytes_of_format(description->Format) * description->NumChannels;
    uint64_t row = rounded_up(product(at_least_1(description->Width >> level), texel), 64);
    uint64_t rows = in_blocks(at_least_1(description->Height >> level), 8, 256);
    uint64_t depth = at_least_1(layered ? description->Depth : description->Depth >> level);
    return product(product(row, rows), layered ? depth : in_blocks(depth, 1, 32));
}

static bool is_mapped_later(const CUDA_ARRAY3D_DESCRIPTOR *description)
{
    return (description->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0;
}

static uint64_t bytes_of_array(const CUDA_ARRAY3D_DESCRIPTOR *description, CUdevice device)
{
    __typeof__(&cuArray3DCreate_v2) create = REAL(cuArray3DCreate_v2);
    __typeof__(&cuArrayGetMemoryRequirements) get_requirements = REAL(cuArrayGetMemoryRequirements);
    __typeof__(&cuArrayDestroy) destroy_array = REAL(cuArrayDestroy);
    CUDA_ARRAY3D_DESCRIPTOR deferred = *description;
    deferred.Flags |= CUDA_ARRAY3D_DEFERRED_MAPPING;
    CUDA_ARRAY_MEMORY_REQUIREMENTS requirements;
    CUarray array;
    if (is_mapped_later(description))
        return 0;
    bool told = false;
    if (create != NULL && get_requirements != NULL && destroy_array != NULL && create(&array, &deferred) == CUDA_SUCCESS) {
        told = get_requirements(&requirements, array, device) == CUDA_SUCCESS;
        destroy_array(array);
    }
    return told ? requirements.size : most_bytes_of_level(description, 0);
}

static uint64_t bytes_of_mipmapped_array(const CUDA_ARRAY3D_DESCRIPTOR *description, unsigned int levels, CUdevice device)
{
    __typeof__(&cuMipmappedArrayCreate) create = REAL(cuMipmappedArrayCreate);
    __typeof__(&cuMipmappedArrayGetMemoryRequirements) get_requirements = REAL(cuMipmappedArrayGetMemoryRequirements);
    __typeof__(&cuMipmappedArrayDestroy) destroy_array = REAL(cuMipmappedArrayDestroy);
    CUDA_ARRAY3D_DESCRIPTOR deferred = *description;
    deferred.Flags |= CUDA_ARRAY3D_DEFERRED_MAPPING;
    CUDA_ARRAY_MEMORY_REQUIREMENTS requirements;
    CUmipmappedArray array;
    if (is_mapped_later(description))
        return 0;
    bool told = false;
    if (create != NULL && get_requirements != NULL && destroy_array != NULL &&
        create(&array, &deferred, levels) == CUDA_SUCCESS) {
        told = get_requirements(&requirements, array, device) == CUDA_SUCCESS;
        destroy_array(array);
    }
    uint64_t bytes = 0;
    for (unsigned int level = 0; level < levels && level < 64; level++)
        if (__builtin_add_overflow(bytes, most_bytes_of_level(description, level), &bytes))
            bytes = UINT64_MAX / 2;
    return told ? requirements.size : bytes;
}

#define CREATE_ARRAY(name, width, height, depth, flags)                                                                \
    __typeof__(&name) real = REAL(name);                                                                               \
    struct place place;                                                                                                \
    if (real == NULL)                                                                                                  \
        return CUDA_ERROR_NOT_INITIALIZED;                                                                             \
    if (array == NULL || description == NULL || !current_place(&place))                                                \
        return real(array, description);                                                                               \
    CUDA_ARRAY3D_DESCRIPTOR full = {width, height, depth, description->Format, description->NumChannels, flags};       \
    uint64_t bytes = bytes_of_array(&full, place.device);                                                              \
    if (!reserve_bytes(&place, bytes))                                                                                 \
        return CUDA_ERROR_OUT_OF_MEMORY;                                                                               \
    CUresult result = real(array, description);                                                                        \
    conclude(result, KIND_ARRAY, result == CUDA_SUCCESS ? (uintptr_t)*array : 0, bytes, &place);                       \
    return result

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
    uint64_t bytes = bytes_of_mipmapped_array(description, levels, place.device);
    if (!reserve_bytes(&place, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = real(array, description, levels);
    conclude(result, KIND_MIPMAPPED_ARRAY, result == CUDA_SUCCESS ? (uintptr_t)*array : 0, bytes, &place);
    return result;
}

CUresult cuArrayDestroy(CUarray array)
{
    __typeof__(&cuArrayDestroy) real = REAL(cuArrayDestroy);
    if (real == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    struct allocation allocation;
    bool taken = allocations_take(KIND_ARRAY, (uintptr_t)array, &allocation);
    CUresult result = real(array);
    conclude_free(result, taken, &allocation);
    return result;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
    __typeof__(&cuMipmappedArrayDestroy) real = REAL(cuMipmappedArrayDestroy);
    if (real == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    struct allocation allocation;
    bool taken = allocations_take(KIND_MIPMAPPED_ARRAY, (uintptr_t)array, &allocation);
    CUresult result = real(array);
    conclude_free(result, taken, &allocation);
    return result;
}
