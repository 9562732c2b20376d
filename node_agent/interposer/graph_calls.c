/* Graphs with nodes that allocate memory.
 *
 * A graph counts from its instantiation until its executable graph is destroyed, with the sum of its allocation nodes, child graphs included,
 * however the nodes were made. That is an upper bound of what one launch takes, and the driver can take no more at any launch: a graph cannot
 * be launched twice at a time. The memory of a device's graphs is charged like a pool: what the driver keeps for them after the last graph
 * stays charged until it is trimmed. */
#include <stdlib.h>

#include "pools.h"
#include "reservation.h"
#include "symbols.h"

enum { MOST_DEVICES = 64, DEEPEST_CHILD = 16 };

static bool add_node(CUgraphNode node, uint64_t bytes[MOST_DEVICES])
{
    __typeof__(&cuGraphMemAllocNodeGetParams) get_parameters = REAL(cuGraphMemAllocNodeGetParams);
    CUDA_MEM_ALLOC_NODE_PARAMS parameters;
    struct place place;
    if (get_parameters == NULL || get_parameters(node, &parameters) != CUDA_SUCCESS)
        return false;
    if (is_on_host(parameters.poolProps.allocType, parameters.poolProps.location))
        return true;
    if (!place_of_location(parameters.poolProps.location, &place))
        return false;
    if (__builtin_add_overflow(bytes[place.device], parameters.bytesize, &bytes[place.device]))
        bytes[place.device] = UINT64_MAX / 2;
    return true;
}

/* Adds the bytes that the nodes of `graph` allocate on each device. False: not all could be read. */
static bool add_nodes(CUgraph graph, uint64_t bytes[MOST_DEVICES], int depth)
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
            all = get_child != NULL && get_child(nodes[i], &child) == CUDA_SUCCESS && add_nodes(child, bytes, depth + 1);
        else if (all && type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
            all = add_node(nodes[i], bytes);
    }
    free(nodes);
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

static bool reserve_graph(CUgraph graph, uint64_t bytes[MOST_DEVICES])
{
    if (!add_nodes(graph, bytes, 0))
        return false;
    for (CUdevice device = 0; device < MOST_DEVICES; device++) {
        struct place place;
        if (bytes[device] == 0)
            continue;
        uint64_t pool = place_of_device(device, &place) ? pool_number(NULL, &place) : 0;
        if (pool == 0 || !reserve_in_pool(pool, bytes[device])) {
            release_devices(bytes, device);
            return false;
        }
    }
    return true;
}

static CUresult conclude_graph(CUresult result, CUgraphExec *executable, const uint64_t bytes[MOST_DEVICES])
{
    if (result != CUDA_SUCCESS) {
        release_devices(bytes, MOST_DEVICES);
        return result;
    }
    for (CUdevice device = 0; device < MOST_DEVICES; device++) {
        struct place place;
        if (bytes[device] == 0 || !place_of_device(device, &place))
            continue;
        struct allocation allocation = {.kind = KIND_GRAPH_EXEC + device, .bytes = bytes[device], .gpu = place.gpu};
        allocation.key = (uintptr_t)*executable;
        allocation.pool = pool_number(NULL, &place);
        record(&allocation);
    }
    return result;
}

#define INSTANTIATE(name, ...)                                                                                         \
    __typeof__(&name) real = REAL(name);                                                                               \
    uint64_t bytes[MOST_DEVICES] = {0};                                                                                \
    if (real == NULL)                                                                                                  \
        return CUDA_ERROR_NOT_INITIALIZED;                                                                             \
    if (!reserve_graph(graph, bytes))                                                                                  \
        return CUDA_ERROR_OUT_OF_MEMORY;                                                                               \
    return conclude_graph(real(__VA_ARGS__), executable, bytes)

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
    CUresult result = real != NULL ? real(executable) : CUDA_ERROR_NOT_INITIALIZED;
    if (result != CUDA_SUCCESS)
        return result;
    for (CUdevice device = 0; device < MOST_DEVICES; device++) {
        struct allocation allocation;
        if (allocations_take_older(KIND_GRAPH_EXEC + device, (uintptr_t)executable, began, &allocation))
            release(&allocation);
    }
    return result;
}
