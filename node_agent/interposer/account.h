/* What this process holds of each GPU, and the container's quota as the node agent last told it. Thread-safe.
 *
 * Without an agent nothing fails: requests are measured against the last known quota, at first that of the container's folder, and pass if
 * none is known. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "driver_types.h"

struct usage {
    uint64_t used_bytes;  /* of the whole container */
    uint64_t quota_bytes;
};

/* To be called before the driver allocates. False: the container's quota does not hold the bytes. */
bool account_reserve(const CUuuid *gpu, uint64_t bytes);

/* To be called after the driver has freed, or after it has failed to allocate. */
void account_release(const CUuuid *gpu, uint64_t bytes);

/* False if no quota is known. */
bool account_usage(const CUuuid *gpu, struct usage *usage);

void account_reset_in_child(void);
