/* What the driver's memory pools hold, for the account.
 *
 * A pool keeps freed memory for later allocations, and so does the memory of a device's graphs. Each is charged with the larger of its live
 * allocations and of what the driver says that it has reserved. So freed memory stays charged until the driver has given it back. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "gpus.h"

/* The pool's number in `allocation.pool`. `handle` NULL: the memory of the device's graphs. 0 if there are too many pools: what would be
 * allocated there must be refused, because what the pool keeps could not be counted. */
uint64_t pool_number(CUmemoryPool handle, const struct place *place);

/* The same for a pool of host memory. */
uint64_t host_pool_number(CUmemoryPool handle);

/* Charges `bytes` to a pool before the driver allocates. False: the quota does not hold them. */
bool pool_reserve(uint64_t number, uint64_t bytes);

/* Takes the bytes of a freed or failed allocation out of the pool. */
void pool_release(uint64_t number, uint64_t bytes);

/* Follows what the driver has reserved. False: that is more than the quota holds. */
bool pool_settle(uint64_t number);

/* What the driver has reserved for the pool; 0 if it does not tell. */
uint64_t pool_reserved(uint64_t number);

/* `pool_settle` for all pools that are charged with more than their allocations; nothing where there is none. */
void pools_settle(void);

/* Tells the driver to give back what its pools do not use, as it does itself when a device is full. */
void pools_trim(void);

/* The same for one pool, also where it is not charged with more than its allocations. */
void pool_trim(uint64_t number);

/* Before a pool is destroyed: its handle is used no more, and no call that uses it is under way. Returns the pool's number, which stays its
 * own until `pool_forgotten`. */
uint64_t pool_forget(CUmemoryPool handle);

/* After that: its allocations live on, or the driver has refused to destroy it. */
void pool_forgotten(uint64_t number, bool destroyed);

enum pool_memory { POOL_UNKNOWN, POOL_ON_DEVICE, POOL_ON_HOST };

/* Where the memory of a pool lies; `place` is set for a pool on a device. */
enum pool_memory memory_of_pool(CUmemoryPool handle, struct place *place);

void pools_reset_in_child(void);
