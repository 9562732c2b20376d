/* Graphs of kernels, allocation nodes and child graphs. The device's memory for graphs grows at a launch and stays until it is trimmed. */
#include <stdlib.h>

#include "fake_driver.h"

enum { MOST_NODES = 64, KERNEL = 0, CHILD = 4, ALLOCATION = 10 };

struct node {
    int type, allocation_type, location, device;
    uint64_t bytes;
    struct graph *child;
};

struct graph {
    int count;
    struct node *nodes[MOST_NODES];
};

struct executable {
    uint64_t bytes[MOST_DEVICES];
    uint64_t microseconds;
    bool launched;
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
    add(graph, node);
    return new_address(bytes);
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
    *node = add(graph, added);
    parameters->pointer = new_address(parameters->bytes);
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
    return SUCCESS;
}

FAKE CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *child)
{
    *child = node->child;
    return SUCCESS;
}

static void add_nodes(struct graph *graph, struct executable *executable)
{
    for (int i = 0; i < graph->count; i++) {
        if (graph->nodes[i]->type == CHILD)
            add_nodes(graph->nodes[i]->child, executable);
        else if (graph->nodes[i]->type == KERNEL)
            executable->microseconds += graph->nodes[i]->bytes;
        else
            executable->bytes[graph->nodes[i]->device] += graph->nodes[i]->bytes;
    }
}

FAKE CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags)
{
    (void)flags;
    driver_lock();
    *executable = unused != NULL ? unused : malloc(sizeof **executable);
    unused = unused != NULL ? unused->next_unused : NULL;
    driver_unlock();
    **executable = (struct executable){.launched = false};
    add_nodes(graph, *executable);
    return SUCCESS;
}

FAKE CUresult cuGraphInstantiate_v2(CUgraphExec *executable, CUgraph graph, CUgraphNode *node, char *log, size_t size)
{
    (void)node, (void)log, (void)size;
    return cuGraphInstantiateWithFlags(executable, graph, 0);
}

FAKE CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream)
{
    CUresult result = SUCCESS;
    driver_lock();
    for (int i = 0; i < device_count() && !executable->launched; i++) {
        uint64_t target = needed[i] + executable->bytes[i];
        if (target > reserved[i] && !take(i, (int64_t)(target - reserved[i])))
            result = OUT_OF_MEMORY;
        else if (target > reserved[i])
            reserved[i] = target;
        needed[i] += result == SUCCESS ? executable->bytes[i] : 0;
    }
    executable->launched |= result == SUCCESS;
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
