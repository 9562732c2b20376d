/* Graphs with nodes that allocate memory.
 *
 * A graph counts from its instantiation until its executable graph is destroyed, with the sum of its allocation nodes, child graphs included,
 * however the nodes were made. That is an upper bound of what one launch takes, and the driver can take no more at any launch: a graph cannot
 * be launched twice at a time. What no node of the graph frees lives on afterwards (graph_memory.h). The memory of a device's graphs is
 * charged like a pool: what the driver keeps for them after the last graph stays charged until it is trimmed. */
#include <stdlib.h>

#include "graph_memory.h"
#include "pools.h"
#include "reservation.h"
#include "symbols.h"

enum { MOST_DEVICES = 64, DEEPEST_CHILD = 16 };

/* The nodes of a graph that allocate or free memory of a GPU. */
struct memory_nodes {
    struct graph_node *nodes;
    size_t count, capacity;
};

static bool append(struct memory_nodes *list, struct graph_node node)
{
    if (list->count == list->capacity) {
        size_t larger = list->capacity != 0 ? list->capacity * 2 : 16;
        struct graph_node *nodes = realloc(list->nodes, larger * sizeof *nodes);
        if (nodes == NULL)
            return false;
        list->nodes = nodes;
        list->capacity = larger;
    }
    list->nodes[list->count++] = node;
    return true;
}

static bool add_allocation(CUgraphNode node, struct memory_nodes *list)
{
    __typeof__(&cuGraphMemAllocNodeGetParams) get_parameters = REAL(cuGraphMemAllocNodeGetParams);
    CUDA_MEM_ALLOC_NODE_PARAMS parameters;
    struct place place;
    if (get_parameters == NULL || get_parameters(node, &parameters) != CUDA_SUCCESS)
        return false;
    if (is_on_host(parameters.poolProps.allocType, parameters.poolProps.location))
        return true;
    return place_of_location(parameters.poolProps.location, &place) &&
           append(list, (struct graph_node){parameters.dptr, parameters.bytesize, place.device, false});
}

static bool add_free(CUgraphNode node, struct memory_nodes *list)
{
    __typeof__(&cuGraphMemFreeNodeGetParams) get_parameters = REAL(cuGraphMemFreeNodeGetParams);
    CUdeviceptr address;
    return get_parameters != NULL && get_parameters(node, &address) == CUDA_SUCCESS &&
           append(list, (struct graph_node){.address = address, .frees = true});
}

/* False: not all nodes could be read. */
static bool add_nodes(CUgraph graph, struct memory_nodes *list, int depth)
{
    __typeof__(&cuGraphGetNodes) get_nodes = REAL(cuGraphGetNodes);
    __typeof__(&cuGraphNodeGetType) get_type = REAL(cuGraphNodeGetType);
    __typeof__(&cuGraphChildGraphNodeGetGraph) get_child = REAL(cuGraphChildGraphNodeGetGraph);
    size_t count = 0;
    /* The driver gives the right error itself for what is no graph. */
    if (get_nodes == NULL || get_type == NULL || get_nodes(graph, NULL, &count) != CUDA_SUCCESS || count == 0)
        return true;
    CUgraphNode *nodes = depth <= DEEPEST_CHILD ? calloc(count, sizeof(CUgraphNode)) : NULL;
    bool all = nodes != NULL && get_nodes(graph, nodes, &count) == CUDA_SUCCESS;
    for (size_t i = 0; all && i < count; i++) {
        int type;
        CUgraph child;
        all = get_type(nodes[i], &type) == CUDA_SUCCESS;
        if (all && type == CU_GRAPH_NODE_TYPE_GRAPH)
            all = get_child != NULL && get_child(nodes[i], &child) == CUDA_SUCCESS && add_nodes(child, list, depth + 1);
        else if (all && type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
            all = add_allocation(nodes[i], list);
        else if (all && type == CU_GRAPH_NODE_TYPE_MEM_FREE)
            all = add_free(nodes[i], list);
    }
    free(nodes);
    return all;
}

/* What an instantiation reserves. */
struct plan {
    uint64_t bytes[MOST_DEVICES];   /* of all its allocation nodes */
    uint64_t cleared[MOST_DEVICES]; /* of those that the graph frees itself */
    struct memory_nodes rest;       /* what only one of the two, allocation or free, is a node of the graph */
};

static void add_bytes(uint64_t *sum, uint64_t bytes)
{
    if (__builtin_add_overflow(*sum, bytes, sum))
        *sum = UINT64_MAX / 2;
}

static int by_address(const void *one, const void *other)
{
    const struct graph_node *a = one, *b = other;
    if (a->address != b->address)
        return a->address < b->address ? -1 : 1;
    return a->frees - b->frees;
}

static bool plan_graph(CUgraph graph, struct plan *plan)
{
    struct memory_nodes *list = &plan->rest;
    bool all = add_nodes(graph, list, 0);
    if (list->count > 1)
        qsort(list->nodes, list->count, sizeof *list->nodes, by_address);
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        struct graph_node node = list->nodes[i];
        bool has_free = i + 1 < list->count && list->nodes[i + 1].frees && list->nodes[i + 1].address == node.address;
        if (!node.frees)
            add_bytes(&plan->bytes[node.device], node.bytes);
        if (!node.frees && has_free)
            add_bytes(&plan->cleared[node.device], node.bytes);
        if (!node.frees && has_free)
            i++;
        else
            list->nodes[kept++] = node;
    }
    list->count = kept;
    return all;
}

static void release_devices(const uint64_t bytes[MOST_DEVICES], int below)
{
    for (CUdevice device = 0; device < below; device++) {
        struct place place;
        if (bytes[device] != 0 && place_of_device(device, &place))
            pool_release(pool_number(NULL, &place), bytes[device]);
    }
}

static bool reserve_graph(CUgraph graph, struct plan *plan)
{
    if (!plan_graph(graph, plan))
        return false;
    for (CUdevice device = 0; device < MOST_DEVICES; device++) {
        struct place place;
        if (plan->bytes[device] == 0)
            continue;
        uint64_t pool = place_of_device(device, &place) ? pool_number(NULL, &place) : 0;
        if (pool == 0 || !reserve_in_pool(pool, plan->bytes[device])) {
            release_devices(plan->bytes, device);
            return false;
        }
    }
    return true;
}

static void record_rest(CUgraphExec executable, const struct memory_nodes *rest)
{
    struct place current, place;
    bool has_context = current_place(&current);
    for (size_t i = 0; i < rest->count; i++) {
        const struct graph_node *node = &rest->nodes[i];
        bool own = has_context && current.device == node->device;
        if (node->frees)
            graph_memory_add(executable, node, 0, NULL);
        else if (place_of_device(node->device, &place))
            graph_memory_add(executable, node, pool_number(NULL, &place), own ? current.context : NULL);
    }
}

static CUresult conclude_graph(CUresult result, CUgraphExec *executable, const struct plan *plan)
{
    if (result != CUDA_SUCCESS) {
        release_devices(plan->bytes, MOST_DEVICES);
        return result;
    }
    for (CUdevice device = 0; device < MOST_DEVICES; device++) {
        struct place place;
        if (plan->cleared[device] == 0 || !place_of_device(device, &place))
            continue;
        struct allocation allocation = {.kind = KIND_GRAPH_EXEC + device, .bytes = plan->cleared[device], .gpu = place.gpu};
        allocation.key = (uintptr_t)*executable;
        allocation.pool = pool_number(NULL, &place);
        record(&allocation);
    }
    record_rest(*executable, &plan->rest);
    return result;
}

#define INSTANTIATE(name, ...)                                                                                         \
    __typeof__(&name) real = REAL(name);                                                                               \
    struct plan plan = {.rest = {NULL, 0, 0}};                                                                         \
    if (real == NULL)                                                                                                  \
        return CUDA_ERROR_NOT_INITIALIZED;                                                                             \
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;                                                                        \
    if (reserve_graph(graph, &plan))                                                                                   \
        result = conclude_graph(real(__VA_ARGS__), executable, &plan);                                                 \
    free(plan.rest.nodes);                                                                                             \
    return result

CUresult cuGraphInstantiate(CUgraphExec *executable, CUgraph graph, CUgraphNode *error_node, char *log, size_t size)
{
    INSTANTIATE(cuGraphInstantiate, executable, graph, error_node, log, size);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *executable, CUgraph graph, CUgraphNode *error_node, char *log, size_t size)
{
    INSTANTIATE(cuGraphInstantiate_v2, executable, graph, error_node, log, size);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags)
{
    INSTANTIATE(cuGraphInstantiateWithFlags, executable, graph, flags);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *executable, CUgraph graph, void *parameters)
{
    INSTANTIATE(cuGraphInstantiateWithParams, executable, graph, parameters);
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *executable, CUgraph graph, void *parameters)
{
    INSTANTIATE(cuGraphInstantiateWithParams_ptsz, executable, graph, parameters);
}

CUresult cuGraphExecDestroy(CUgraphExec executable)
{
    __typeof__(&cuGraphExecDestroy) real = REAL(cuGraphExecDestroy);
    uint64_t began = allocations_now();
    struct graph_change change = graph_memory_begin(GRAPH_DESTROY, (uintptr_t)executable);
    CUresult result = real != NULL ? real(executable) : CUDA_ERROR_NOT_INITIALIZED;
    graph_memory_end(change, result == CUDA_SUCCESS);
    if (result != CUDA_SUCCESS)
        return result;
    for (CUdevice device = 0; device < MOST_DEVICES; device++) {
        struct allocation allocation;
        if (allocations_take_older(KIND_GRAPH_EXEC + device, (uintptr_t)executable, began, &allocation))
            release(&allocation);
    }
    return result;
}
