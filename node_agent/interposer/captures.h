/* Stream captures in progress. Work that is captured is only recorded, and a context must not be synchronized meanwhile. */
#pragma once

#include <stdbool.h>

#include "driver_types.h"

/* Whether a call in the stream makes a graph's node instead of running. */
bool is_capturing(CUstream stream);

/* Whether a capture of this process has begun and not ended. */
bool captures_in_progress(void);

void captures_reset_in_child(void);
