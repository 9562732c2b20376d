/* Memory of graphs' allocation nodes that no node of the same graph frees.
 *
 * It begins to live with a launch, and outlives the executable graph: until the program frees its address, until another graph with a free
 * node of that address is launched, or until its context ends (CUDA Driver API, cuGraphAddMemAllocNode). It is charged while it lives, and
 * while its executable graph is there, which may be launched again.
 *
 * A call that changes this begins a change before the driver's call and ends it afterwards, because the driver may hand a handle or an
 * address out again before its call has returned. Thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver_types.h"

/* A node that allocates, or one that frees what another graph allocates. */
struct graph_node {
    uint64_t address, bytes;
    CUdevice device;
    bool frees;
};

/* After the instantiation: `node` is one of `executable`. Its bytes are charged to `pool`. Without memory for the table they stay charged
 * until the process ends. */
void graph_memory_add(CUgraphExec executable, const struct graph_node *node, uint64_t pool, CUcontext context);

enum graph_change_kind { GRAPH_LAUNCH, GRAPH_FREE, GRAPH_DESTROY, GRAPH_CONTEXT_END };

struct graph_change {
    enum graph_change_kind kind;
    uint64_t number; /* 0: it concerns no such memory */
    uint64_t subject;
};

/* `subject`: the executable graph, the address that is freed, or the context. */
struct graph_change graph_memory_begin(enum graph_change_kind kind, uint64_t subject);

/* `done`: the driver has done it. */
void graph_memory_end(struct graph_change change, bool done);

/* Memory that counted with the context `from` ends with `to`. */
void graph_memory_move(CUcontext from, CUcontext to);

void graph_memory_reset_in_child(void);
