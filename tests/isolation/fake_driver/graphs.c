/* Graphs of kernels, nodes that allocate and free, and child graphs. The device's memory for graphs grows at a launch and stays until it is
 * trimmed. What a graph's own nodes free is needed until the executable graph ends. What they do not free lives, as a block, until it is
 * freed: by its address, by another graph's node, or by the next launch if the graph was instantiated so. */
#include <stdlib.h>

#include "fake_driver.h"

enum { MOST_NODES = 64, KERNEL = 0, CHILD = 4, ALLOCATION = 10, RELEASE = 11, AUTO_FREE_ON_LAUNCH = 1 };

struct node {
    int type, allocation_type, location, device;
    uint64_t bytes;
    CUdeviceptr address;
    struct graph *child;
};

struct graph {
    int count;
    struct node *nodes[MOST_NODES];
};

struct executable {
    uint64_t bytes[MOST_DEVICES]; /* of what its own nodes free */
    uint64_t microseconds;
    bool launched, frees_before;
    struct node *unfreed[MOST_NODES];
    CUdeviceptr freed[MOST_NODES]; /* what other graphs allocate */
    int unfreed_count, freed_count;
    struct executable *next_unused;
};

static struct executable *unused; /* a handle that is free is the next to be handed out */

static uint64_t reserved[MOST_DEVICES], needed[MOST_DEVICES];

struct allocation_parameters {
    int allocation_type, handle_types, location_type, device;
    void *security;
    size_t largest;
    unsigned char reserved[56];
    const void *access;
    size_t access_count, bytes;
    CUdeviceptr pointer;
};

FAKE CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
    (void)flags;
    *graph = calloc(1, sizeof **graph);
    return SUCCESS;
}

FAKE CUresult cuGraphDestroy(CUgraph graph)
{
    for (int i = 0; i < graph->count; i++)
        free(graph->nodes[i]);
    free(graph);
    return SUCCESS;
}

static struct node *add(struct graph *graph, struct node node)
{
    struct node *stored = malloc(sizeof *stored);
    *stored = node;
    graph->nodes[graph->count++] = stored;
    return stored;
}

CUdeviceptr add_allocation_node(struct graph *graph, int type, int location, int device, uint64_t bytes)
{
    struct node node = {.type = ALLOCATION, .allocation_type = type, .location = location, .device = device, .bytes = bytes};
    node.address = new_address(bytes);
    add(graph, node);
    return node.address;
}

void add_free_node(struct graph *graph, CUdeviceptr address)
{
    add(graph, (struct node){.type = RELEASE, .address = address});
}

CUresult add_kernel_node(struct graph *graph, uint64_t microseconds)
{
    add(graph, (struct node){.type = KERNEL, .bytes = microseconds});
    return SUCCESS;
}

FAKE CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                     struct allocation_parameters *parameters)
{
    (void)after, (void)count;
    struct node added = {.type = ALLOCATION, .device = parameters->device, .bytes = parameters->bytes};
    added.allocation_type = parameters->allocation_type;
    added.location = parameters->location_type;
    added.address = parameters->pointer = new_address(parameters->bytes);
    *node = add(graph, added);
    return SUCCESS;
}

FAKE CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, CUdeviceptr address)
{
    (void)after, (void)count;
    *node = add(graph, (struct node){.type = RELEASE, .address = address});
    return SUCCESS;
}

FAKE CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, CUgraph child)
{
    (void)after, (void)count;
    *node = add(graph, (struct node){.type = CHILD, .child = child});
    return SUCCESS;
}

FAKE CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    for (int i = 0; nodes != NULL && i < graph->count && (size_t)i < *count; i++)
        nodes[i] = graph->nodes[i];
    *count = (size_t)graph->count;
    return SUCCESS;
}

FAKE CUresult cuGraphNodeGetType(CUgraphNode node, int *type)
{
    *type = node->type;
    return SUCCESS;
}

FAKE CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, struct allocation_parameters *parameters)
{
    *parameters = (struct allocation_parameters){.device = node->device, .bytes = node->bytes};
    parameters->allocation_type = node->allocation_type;
    parameters->location_type = node->location;
    parameters->pointer = node->address;
    return SUCCESS;
}

FAKE CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *address)
{
    *address = node->address;
    return SUCCESS;
}

FAKE CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *child)
{
    *child = node->child;
    return SUCCESS;
}

static bool has_node(struct graph *graph, int type, CUdeviceptr address)
{
    bool found = false;
    for (int i = 0; i < graph->count && !found; i++) {
        struct node *node = graph->nodes[i];
        found = node->type == CHILD ? has_node(node->child, type, address) : node->type == type && node->address == address;
    }
    return found;
}

static void add_nodes(struct graph *whole, struct graph *graph, struct executable *executable)
{
    for (int i = 0; i < graph->count; i++) {
        struct node *node = graph->nodes[i];
        if (node->type == CHILD)
            add_nodes(whole, node->child, executable);
        else if (node->type == KERNEL)
            executable->microseconds += node->bytes;
        else if (node->type == ALLOCATION && has_node(whole, RELEASE, node->address))
            executable->bytes[node->device] += node->bytes;
        else if (node->type == ALLOCATION)
            executable->unfreed[executable->unfreed_count++] = node;
        else if (!has_node(whole, ALLOCATION, node->address))
            executable->freed[executable->freed_count++] = node->address;
    }
}

FAKE CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags)
{
    driver_lock();
    *executable = unused != NULL ? unused : malloc(sizeof **executable);
    unused = unused != NULL ? unused->next_unused : NULL;
    driver_unlock();
    **executable = (struct executable){.frees_before = flags & AUTO_FREE_ON_LAUNCH};
    add_nodes(graph, graph, *executable);
    return SUCCESS;
}

FAKE CUresult cuGraphInstantiate_v2(CUgraphExec *executable, CUgraph graph, CUgraphNode *node, char *log, size_t size)
{
    (void)node, (void)log, (void)size;
    return cuGraphInstantiateWithFlags(executable, graph, 0);
}

static bool need(int device, uint64_t bytes)
{
    uint64_t target = needed[device] + bytes;
    if (target > reserved[device] && !take(device, (int64_t)(target - reserved[device])))
        return false;
    needed[device] = target;
    reserved[device] = target > reserved[device] ? target : reserved[device];
    return true;
}

void graph_memory_unused(const struct block *block)
{
    driver_lock();
    needed[block->device] -= block->bytes;
    driver_unlock();
}

void graph_memory_ended(const struct block *block)
{
    needed[block->device] -= block->bytes;
    reserved[block->device] -= block->bytes;
}

static void free_address(CUdeviceptr address)
{
    struct block *block = forget(address);
    if (block != NULL)
        needed[block->device] -= block->bytes;
    free(block);
}

/* Allocates what lives on after the graph. */
static CUresult allocate_unfreed(struct executable *executable)
{
    for (int i = 0; i < executable->unfreed_count; i++) {
        if (executable->frees_before)
            free_address(executable->unfreed[i]->address);
        else if (is_block(executable->unfreed[i]->address))
            return INVALID_VALUE;
    }
    for (int i = 0; i < executable->unfreed_count; i++) {
        struct node *node = executable->unfreed[i];
        if (!need(node->device, node->bytes)) {
            while (i-- > 0)
                free_address(executable->unfreed[i]->address);
            return OUT_OF_MEMORY;
        }
        struct block block = {.key = node->address, .bytes = node->bytes, .device = node->device};
        block.context = owner_of_memory(current());
        block.of_graph = true;
        remember(block);
    }
    return SUCCESS;
}

static CUresult allocate_freed(struct executable *executable)
{
    CUresult result = SUCCESS;
    int device = 0;
    for (; device < device_count() && !executable->launched && result == SUCCESS; device++)
        result = need(device, executable->bytes[device]) ? SUCCESS : OUT_OF_MEMORY;
    for (device -= 2; result != SUCCESS && device >= 0; device--)
        needed[device] -= executable->bytes[device];
    return result;
}

FAKE CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream)
{
    driver_lock();
    CUresult result = allocate_freed(executable);
    executable->launched |= result == SUCCESS;
    if (result == SUCCESS)
        result = allocate_unfreed(executable);
    for (int i = 0; i < executable->freed_count && result == SUCCESS; i++)
        free_address(executable->freed[i]);
    driver_unlock();
    return result == SUCCESS && executable->microseconds != 0 ? run_kernel(stream, executable->microseconds) : result;
}

FAKE CUresult cuGraphExecDestroy(CUgraphExec executable)
{
    driver_lock();
    for (int i = 0; i < device_count() && executable->launched; i++)
        needed[i] -= executable->bytes[i];
    executable->next_unused = unused;
    unused = executable;
    driver_unlock();
    before_return("cuGraphExecDestroy");
    return SUCCESS;
}

FAKE CUresult cuDeviceGraphMemTrim(int device)
{
    driver_lock();
    take(device, -(int64_t)(reserved[device] - needed[device]));
    reserved[device] = needed[device];
    driver_unlock();
    return SUCCESS;
}

FAKE CUresult cuDeviceGetGraphMemAttribute(int device, int attribute, void *value)
{
    if (attribute != 2)
        return INVALID_VALUE;
    *(uint64_t *)value = reserved[device];
    return SUCCESS;
}
