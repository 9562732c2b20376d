/* Linear memory, managed memory, arrays, and memory with handles. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_driver.h"

/* A driver that bears no preloaded library: what FAKE_CUDA_UNDER_PRELOAD names, crash, exit, signal, hang or deadlock. */
static void suffer_preload(void)
{
    const char *suffering = getenv("LD_PRELOAD") != NULL ? getenv("FAKE_CUDA_UNDER_PRELOAD") : NULL;
    if (suffering != NULL && strcmp(suffering, "crash") == 0)
        raise(SIGSEGV);
    if (suffering != NULL && strcmp(suffering, "exit") == 0)
        _exit(0);
    if (suffering != NULL && strcmp(suffering, "signal") == 0)
        raise(SIGRTMIN + 6);
    if (suffering != NULL && strcmp(suffering, "deadlock") == 0) {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL); /* as the library does while it holds a lock */
        pause();
    }
    while (suffering != NULL && strcmp(suffering, "hang") == 0)
        pause();
}

static CUresult allocate(uint64_t bytes, uint64_t *key)
{
    struct context *context = current();
    if (context == NULL)
        return INVALID_CONTEXT;
    if (bytes == 0 || bytes > INT64_MAX)
        return bytes == 0 ? INVALID_VALUE : OUT_OF_MEMORY;
    if (!take(context->device, (int64_t)bytes))
        return OUT_OF_MEMORY;
    *key = new_address(bytes);
    remember((struct block){.key = *key, .bytes = bytes, .device = context->device, .context = owner_of_memory(context)});
    return SUCCESS;
}

static CUresult give_back(uint64_t key)
{
    struct block *block = forget(key);
    if (block == NULL)
        return INVALID_VALUE;
    if (block->pool != NULL)
        pool_unused(block);
    else if (block->of_graph)
        graph_memory_unused(block);
    else
        take(block->device, -(int64_t)block->bytes);
    free(block);
    return SUCCESS;
}

FAKE CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    uint64_t key = 0;
    suffer_preload();
    CUresult result = allocate(bytes, &key);
    if (result == SUCCESS)
        *pointer = key;
    return result;
}

FAKE CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned int flags)
{
    return flags == 1 || flags == 2 ? cuMemAlloc_v2(pointer, bytes) : INVALID_VALUE;
}

FAKE CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned int element)
{
    (void)element;
    size_t padded = (width + PITCH - 1) / PITCH * PITCH;
    CUresult result = cuMemAlloc_v2(pointer, padded * height);
    if (result == SUCCESS)
        *pitch = padded;
    return result;
}

FAKE CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    return pointer == 0 ? SUCCESS : give_back(pointer);
}

/* A module whose image is PTX, or else only the size of its `__device__` variables. */
FAKE CUresult cuModuleLoadData(void **module, const uint64_t *image)
{
    bool is_ptx = strncmp((const char *)image, ".version", 8) == 0;
    uint64_t key = 0;
    CUresult result = allocate(is_ptx ? 1 : *image, &key);
    *module = (void *)key;
    return result;
}

/* Its kernels run for 1 µs. */
FAKE CUresult cuModuleGetFunction(void **function, void *module, const char *name)
{
    if (!is_block((uint64_t)module) || *name == '\0')
        return NOT_FOUND;
    *function = (void *)1;
    return SUCCESS;
}

struct array_description {
    size_t width, height, depth;
    int format;
    unsigned int channels, flags;
};

enum { LAYERED = 0x01, DEFERRED = 0x80 };

struct flat_description {
    size_t width, height;
    int format;
    unsigned int channels;
};

static uint64_t padded(uint64_t length, uint64_t unit)
{
    return (length + unit - 1) / unit * unit;
}

/* Rows of 64 bytes, in blocks of 8. The layers of a layered array are as many at each level. */
static uint64_t level_bytes(const struct array_description *d, unsigned int level)
{
    uint64_t width = d->width >> level, height = d->height >> level;
    uint64_t depth = d->flags & LAYERED ? d->depth : d->depth >> level;
    uint64_t texel = d->channels * (d->format == 0x20 ? 4 : d->format == 0x10 ? 2 : 1);
    return padded((width != 0 ? width : 1) * texel, 64) * (height > 1 ? padded(height, 8) : 1) * (depth != 0 ? depth : 1);
}

static CUresult create_array(void **array, const struct array_description *description, uint64_t bytes)
{
    uint64_t key = 0;
    CUresult result = SUCCESS;
    if ((description->flags & DEFERRED) == 0) {
        result = allocate(bytes, &key);
    } else if (getenv("FAKE_CUDA_WITHOUT_DEFERRED_MAPPING") != NULL) {
        result = NOT_SUPPORTED;
    } else {
        key = new_address(1);
        remember((struct block){.key = key, .context = current(), .device = current()->device, .required_bytes = bytes});
    }
    *array = (void *)key;
    return result;
}

struct requirements {
    size_t size, alignment;
    unsigned int reserved[4];
};

static CUresult get_requirements(struct requirements *requirements, void *array)
{
    struct block *block = forget((uint64_t)array);
    if (block == NULL)
        return INVALID_VALUE;
    *requirements = (struct requirements){block->required_bytes, 512, {0}};
    remember(*block);
    free(block);
    return requirements->size != 0 ? SUCCESS : INVALID_VALUE;
}

FAKE CUresult cuArrayGetMemoryRequirements(struct requirements *requirements, void *array, int device)
{
    (void)device;
    return get_requirements(requirements, array);
}

FAKE CUresult cuMipmappedArrayGetMemoryRequirements(struct requirements *requirements, void *array, int device)
{
    (void)device;
    return get_requirements(requirements, array);
}

FAKE CUresult cuArray3DCreate_v2(void **array, const struct array_description *description)
{
    return create_array(array, description, level_bytes(description, 0));
}

FAKE CUresult cuArrayCreate_v2(void **array, const struct flat_description *flat)
{
    struct array_description full = {flat->width, flat->height, 0, flat->format, flat->channels, 0};
    return cuArray3DCreate_v2(array, &full);
}

FAKE CUresult cuMipmappedArrayCreate(void **array, const struct array_description *description, unsigned int levels)
{
    uint64_t bytes = 0;
    for (unsigned int level = 0; level < levels; level++)
        bytes += level_bytes(description, level);
    return create_array(array, description, bytes);
}

FAKE CUresult cuArrayDestroy(void *array)
{
    return give_back((uint64_t)array);
}

FAKE CUresult cuMipmappedArrayDestroy(void *array)
{
    return give_back((uint64_t)array);
}

/* Handles of cuMemCreate: the memory lives while a handle or a mapping holds it. */
struct physical {
    int device, holders;
    uint64_t bytes;
    struct physical *next_unused;
};

static struct physical *unused; /* a handle that is free is the next to be handed out */

struct properties {
    int type, handle_types, location_type, device;
};

FAKE CUresult cuMemCreate(uint64_t *handle, size_t bytes, const struct properties *properties, uint64_t flags)
{
    (void)flags;
    if (bytes == 0 || bytes % GRANULARITY != 0 || device_of(properties->device) == NULL)
        return INVALID_VALUE;
    if (!take(properties->device, (int64_t)bytes))
        return OUT_OF_MEMORY;
    driver_lock();
    struct physical *physical = unused != NULL ? unused : malloc(sizeof *physical);
    unused = unused != NULL ? unused->next_unused : NULL;
    driver_unlock();
    *physical = (struct physical){properties->device, 1, bytes, NULL};
    *handle = (uint64_t)physical;
    return SUCCESS;
}

static void let_go(struct physical *physical)
{
    driver_lock();
    bool last = --physical->holders == 0;
    driver_unlock();
    if (last) {
        take(physical->device, -(int64_t)physical->bytes);
        driver_lock();
        physical->next_unused = unused;
        unused = physical;
        driver_unlock();
    }
}

FAKE CUresult cuMemRelease(uint64_t handle)
{
    let_go((struct physical *)handle);
    before_return("cuMemRelease");
    return SUCCESS;
}

FAKE CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t bytes, size_t alignment, CUdeviceptr wanted, uint64_t flags)
{
    (void)alignment, (void)wanted, (void)flags;
    *pointer = new_address(bytes);
    return SUCCESS;
}

FAKE CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes)
{
    return bytes == 0 || is_block(pointer) ? INVALID_VALUE : SUCCESS; /* mapped */
}

/* A mapping is a block of no bytes whose `stream` names the memory. */
FAKE CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, uint64_t handle, uint64_t flags)
{
    (void)bytes, (void)offset, (void)flags;
    driver_lock();
    ((struct physical *)handle)->holders++;
    driver_unlock();
    remember((struct block){.key = pointer, .stream = (struct stream *)handle});
    return SUCCESS;
}

FAKE CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes)
{
    for (uint64_t at = pointer; at < pointer + bytes; at += GRANULARITY) {
        struct block *mapping = forget(at);
        if (mapping != NULL)
            let_go((struct physical *)mapping->stream);
        free(mapping);
    }
    before_return("cuMemUnmap");
    return SUCCESS;
}

FAKE CUresult cuMemRetainAllocationHandle(uint64_t *handle, void *address)
{
    struct block *mapping = forget((uint64_t)address);
    if (mapping == NULL)
        return INVALID_VALUE;
    *handle = (uint64_t)mapping->stream;
    ((struct physical *)*handle)->holders++;
    remember(*mapping);
    free(mapping);
    return SUCCESS;
}
