/* Stream captures in progress. Work that is captured is only recorded, and a context must not be synchronized meanwhile. */
#pragma once

#include <stdbool.h>

#include "driver_types.h"

/* In a capture a call makes a graph's node instead of running: memory counts when the graph is instantiated. But another thread may end the
 * capture between a look and the call. Each capture has a number of its own, so a call was captured for certain if the number is the same
 * before and after. */
struct capture {
    bool active;
    uint64_t number;
};

struct capture capture_of(CUstream stream);
bool is_capturing(CUstream stream);

/* Whether a capture of this process has begun and not ended. */
bool captures_in_progress(void);

/* The captures of a context end with it. */
void captures_end_with(CUcontext context);

void captures_reset_in_child(void);
