/* The container's quotas as the device plugin wrote them at its start: docs/contracts.md, "quotas". */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "driver_types.h"

/* Reads the quota of a GPU, in bytes; 0 for one that the container has no share of. False: there is no file, or it cannot be read. */
bool quota_in_file(const CUuuid *gpu, uint64_t *bytes);
