/* Contexts, and the list of what they and the device hold. */
#include <stdlib.h>

#include "fake_driver.h"

static __thread struct context *stack[16];
static __thread int depth;
static struct context primaries[MOST_DEVICES];
static struct context *unused; /* a handle that is free is the next to be handed out */
static struct block *blocks;
static uint64_t next_address = 0x7f0000000000;

struct context *current(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

struct context *owner_of_memory(struct context *context)
{
    return context != NULL && context->green_of != NULL ? context->green_of : context;
}

uint64_t new_address(uint64_t bytes)
{
    driver_lock();
    uint64_t address = next_address;
    next_address += (bytes + GRANULARITY) / GRANULARITY * GRANULARITY;
    driver_unlock();
    return address;
}

void remember(struct block block)
{
    struct block *stored = malloc(sizeof *stored);
    *stored = block;
    driver_lock();
    stored->next = blocks;
    blocks = stored;
    driver_unlock();
}

static struct block *find(uint64_t key)
{
    driver_lock();
    struct block *block = blocks;
    while (block != NULL && block->key != key)
        block = block->next;
    driver_unlock();
    return block;
}

bool is_block(uint64_t key)
{
    return find(key) != NULL;
}

bool is_block_of_no_graph(uint64_t key)
{
    struct block *block = find(key);
    return block != NULL && !block->of_graph;
}

struct block *forget(uint64_t key)
{
    struct block *found = NULL;
    driver_lock();
    for (struct block **link = &blocks; *link != NULL; link = &(*link)->next) {
        if ((*link)->key == key) {
            found = *link;
            *link = found->next;
            break;
        }
    }
    driver_unlock();
    return found;
}

void forget_context(struct context *context)
{
    driver_lock();
    for (int limit = 0; limit < 3; limit++) {
        take(context->device, -(int64_t)context->limits[limit]);
        context->limits[limit] = 0;
    }
    for (struct block **link = &blocks; *link != NULL;) {
        struct block *block = *link;
        if (block->context != context) {
            link = &block->next;
            continue;
        }
        *link = block->next;
        take(block->device, -(int64_t)block->bytes);
        if (block->of_graph)
            graph_memory_ended(block);
        free(block);
    }
    driver_unlock();
}

FAKE CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, int device)
{
    (void)flags;
    if (device_of(device) == NULL)
        return INVALID_DEVICE;
    driver_lock();
    *context = unused != NULL ? unused : malloc(sizeof **context);
    unused = unused != NULL ? unused->next_unused : NULL;
    driver_unlock();
    **context = (struct context){.device = device};
    stack[depth++] = *context;
    return SUCCESS;
}

FAKE CUresult cuCtxDestroy_v2(CUcontext context)
{
    if (context == NULL || context->primary)
        return INVALID_CONTEXT;
    forget_context(context);
    if (current() == context)
        depth--;
    driver_lock();
    context->next_unused = unused;
    unused = context;
    driver_unlock();
    before_return("cuCtxDestroy");
    return SUCCESS;
}

/* Takes at once what NVIDIA's takes at the first launch that needs it: a stack for each thread, the printf buffer, the heap of malloc. */
FAKE CUresult cuCtxSetLimit(int limit, size_t value)
{
    struct context *context = current();
    if (context == NULL)
        return INVALID_CONTEXT;
    if (limit < 0 || limit > 2)
        return INVALID_VALUE;
    uint64_t first[] = {1024, 1 << 20, 8 << 20}, above = value > first[limit] ? value - first[limit] : 0;
    uint64_t bytes = limit == 0 ? above * MULTIPROCESSORS * THREADS : above;
    if (!take(context->device, (int64_t)(bytes - context->limits[limit])))
        return OUT_OF_MEMORY;
    context->limits[limit] = bytes;
    return SUCCESS;
}

FAKE CUresult cuDeviceGetAttribute(int *value, int attribute, int device)
{
    enum { VIRTUAL_MEMORY = 102, MEMORY_POOLS = 115 };
    bool offered = attribute == VIRTUAL_MEMORY || attribute == MEMORY_POOLS;
    *value = offered ? 1 : attribute == 16 ? MULTIPROCESSORS : THREADS;
    if (device_of(device) == NULL)
        return INVALID_DEVICE;
    return offered || attribute == 16 || attribute == 39 ? SUCCESS : INVALID_VALUE;
}

FAKE CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = current();
    return SUCCESS;
}

FAKE CUresult cuCtxSetCurrent(CUcontext context)
{
    if (depth == 0)
        depth = 1;
    stack[depth - 1] = context;
    return SUCCESS;
}

FAKE CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    if (context->destroyed)
        abort(); /* as a driver may that looks into what it has freed */
    stack[depth++] = context;
    return SUCCESS;
}

FAKE CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    if (depth == 0)
        return INVALID_CONTEXT;
    *context = stack[--depth];
    return SUCCESS;
}

FAKE CUresult cuCtxGetDevice(int *device)
{
    if (current() == NULL)
        return INVALID_CONTEXT;
    *device = current()->device;
    return SUCCESS;
}

FAKE CUresult cuDevicePrimaryCtxRetain(CUcontext *context, int device)
{
    if (device_of(device) == NULL)
        return INVALID_DEVICE;
    *context = &primaries[device];
    (*context)->device = device;
    (*context)->primary = true;
    (*context)->references++;
    return SUCCESS;
}

FAKE CUresult cuDevicePrimaryCtxRelease_v2(int device)
{
    if (device_of(device) == NULL || primaries[device].references == 0)
        return INVALID_CONTEXT;
    if (--primaries[device].references == 0)
        forget_context(&primaries[device]);
    return SUCCESS;
}

FAKE CUresult cuDevicePrimaryCtxReset_v2(int device)
{
    if (device_of(device) == NULL)
        return INVALID_DEVICE;
    primaries[device].references = 0;
    forget_context(&primaries[device]);
    before_return("cuDevicePrimaryCtxReset");
    return SUCCESS;
}

FAKE CUresult cuDevicePrimaryCtxGetState(int device, unsigned int *flags, int *active)
{
    if (device_of(device) == NULL)
        return INVALID_DEVICE;
    *flags = 0;
    *active = primaries[device].references > 0;
    return SUCCESS;
}

/* Green contexts. Their memory is the primary context's, which they retain. */
FAKE CUresult cuGreenCtxCreate(CUcontext *green, void *resources, int device, unsigned int flags)
{
    (void)resources, (void)flags;
    struct context *made = malloc(sizeof *made), *primary;
    CUresult result = cuDevicePrimaryCtxRetain(&primary, device);
    *made = (struct context){.device = device, .green_of = primary};
    *green = made;
    return result;
}

FAKE CUresult cuCtxFromGreenCtx(CUcontext *context, CUcontext green)
{
    *context = green;
    return SUCCESS;
}

FAKE CUresult cuGreenCtxDestroy(CUcontext green)
{
    green->destroyed = true;
    return cuDevicePrimaryCtxRelease_v2(green->device);
}
