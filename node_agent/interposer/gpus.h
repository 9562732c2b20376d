/* Which GPU a call is about. */
#pragma once

#include <stdbool.h>

#include "driver_types.h"

struct place {
    CUdevice device;
    CUuuid gpu;
    CUcontext context;
};

/* False where the driver knows no such device. */
bool place_of_device(CUdevice device, struct place *place);

/* The GPU of the calling thread's current context. */
bool current_place(struct place *place);

/* The stream's context is the calling thread's current one. */
bool is_default_stream(CUstream stream);

/* Memory of this allocation type (CU_MEM_ALLOCATION_TYPE_…) never lies on a GPU. Managed memory may, wherever it prefers to be. */
bool is_on_host(int type, CUmemLocation location);

/* The GPU of the location. A location that names no device is charged to the current one. */
bool place_of_location(CUmemLocation location, struct place *place);

/* The GPU of a stream's context, which need not be the current one. */
bool place_of_stream(CUstream stream, struct place *place);

/* The GPU that NVML names in the form `GPU-` and 8-4-4-4-12 hex digits, at the beginning of a text. */
bool gpu_of_nvml_name(const char *name, CUuuid *gpu);
