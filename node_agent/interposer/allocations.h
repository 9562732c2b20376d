/* The process's table of what it holds: from a pointer or handle to its bytes and GPU. Thread-safe.
 *
 * An entry is taken out before the driver frees, and put back if the driver fails. So a second free of the same pointer finds no entry,
 * and a pointer that the driver hands out again cannot meet its old entry. */
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
    KIND_MAPPING, /* an address range; `pool` is the handle that is mapped there */
    KIND_GRAPH_EXEC /* + the device's number */
};

struct allocation {
    int kind;
    uint64_t key;
    uint64_t bytes;
    CUuuid gpu;
    CUcontext context;  /* destroyed with it, NULL for memory that belongs to no context */
    uint64_t pool;      /* 1 + the number of the pool that it is charged to, 0 for none */
    uint64_t references; /* of a handle: what holds its memory, references and mappings together */
};

/* Without memory for the table itself the entry is lost: its bytes stay charged until the process ends. */
void allocations_add(const struct allocation *allocation);

bool allocations_take(int kind, uint64_t key, struct allocation *taken);

/* Adds `change` (1 or -1) to a handle's references. True if none is left: the entry is then taken out. */
bool allocations_reference(uint64_t handle, int change, struct allocation *taken);

/* Takes out the next entry that `wanted` accepts. Begin with a cursor of 0. */
bool allocations_take_next(bool (*wanted)(const struct allocation *, const void *), const void *argument, size_t *cursor,
                           struct allocation *taken);

void allocations_reset_in_child(void);
