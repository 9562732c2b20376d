/* The order that every allocation keeps: reserve, then the driver allocates, then the table knows it. */
#pragma once

#include <stdbool.h>

#include "allocations.h"
#include "graph_memory.h"
#include "gpus.h"

/* Reserves bytes; where the quota does not hold them, after the driver's pools have given back what they do not use. */
bool reserve_bytes(const struct place *place, uint64_t bytes);

/* The same in a pool. */
bool reserve_in_pool(uint64_t pool, uint64_t bytes);

/* After the driver's call: records what it has allocated, or gives the reservation back. */
void conclude(CUresult result, int kind, uint64_t key, uint64_t bytes, const struct place *place);

/* Puts an entry into the table, and gives back what the entry held that it displaces. */
void record(const struct allocation *allocation);

/* Gives back what an entry holds that was taken out of the table. */
void release(const struct allocation *allocation);

/* What a call frees by its pointer: an entry of the table, or the memory of a graph's node. */
struct freeing {
    bool taken;
    struct allocation allocation;
    struct graph_change of_graph;
};

/* Before and after the driver's call. */
struct freeing begin_free(CUdeviceptr pointer);
void end_free(const struct freeing *freeing, bool freed);

/* An entry taken out for a call that frees: gives it back to the account, or to the table if the call failed. */
void conclude_free(CUresult result, bool taken, const struct allocation *allocation);
