/* The process's table of what it holds: from a pointer or handle to its bytes and GPU. Thread-safe.
 *
 * The driver may hand a pointer or handle out again, to another thread, before the call that freed it has returned. So that call must not
 * take the newer entry for its own:
 * - A pointer's entry is taken out before the driver frees, and put back if the driver fails. A second free of it finds no entry.
 * - A call that may end several entries, or none, takes out those that are older than the call: see `allocations_now`.
 * - An entry whose key is handed out again has been freed: the newer one displaces it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver_types.h"

enum allocation_kind {
    KIND_POINTER = 1,
    KIND_ARRAY,
    KIND_MIPMAPPED_ARRAY,
    KIND_HANDLE,  /* memory of cuMemCreate */
    KIND_MAPPING, /* an address range; `handle` is mapped there */
    KIND_LIMIT,                                /* + the limit's number; the key is the context */
    KIND_GRAPH_EXEC = KIND_LIMIT + LIMIT_COUNT /* + the device's number */
};

struct allocation {
    int kind;
    uint64_t key;
    uint64_t bytes;
    CUuuid gpu;
    CUcontext context;  /* destroyed with it, NULL for memory that belongs to no context */
    uint64_t pool;      /* 1 + the number of the pool that it is charged to, 0 for none */
    uint64_t references; /* of a handle: what holds its memory, references and mappings together */
    uint64_t handle;
    uint64_t time; /* when it was added, 0 for an entry that never was */
};

/* The time that the next entry gets. Entries that exist already have lower ones. */
uint64_t allocations_now(void);

/* True: another entry of the same key was there. The older of the two is in `displaced`, and the table has the newer.
 * Without memory for the table itself the entry is lost: its bytes stay charged until the process ends. */
bool allocations_add(const struct allocation *allocation, struct allocation *displaced);

bool allocations_take(int kind, uint64_t key, struct allocation *taken);

bool allocations_take_older(int kind, uint64_t key, uint64_t than, struct allocation *taken);

/* To be called before the driver takes a reference to a handle, so that the table never has fewer than the driver. */
void allocations_reference(uint64_t handle);

/* To be called after the driver has dropped one, or after it has failed to take it. True if none is left: the entry is then taken out. */
bool allocations_unreference(uint64_t handle, uint64_t older_than, struct allocation *taken);

typedef bool (*allocation_filter)(const struct allocation *, const void *argument);

/* Takes out the next older entry that `wanted` accepts. Begin with a cursor of 0. */
bool allocations_take_next(allocation_filter wanted, const void *argument, uint64_t older_than, size_t *cursor,
                           struct allocation *taken);

/* Copies an entry that `wanted` accepts. */
bool allocations_find(allocation_filter wanted, const void *argument, struct allocation *found);

void allocations_reset_in_child(void);
