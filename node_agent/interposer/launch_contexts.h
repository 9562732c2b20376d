/* The contexts in which the process has launched work: what has to be waited for before a turn is released. */
#pragma once

#include "driver_types.h"

/* Notes the calling thread's current context. To be called between `launch_enter` and `launch_leave`. */
void launch_contexts_note(void);

void launch_contexts_add(CUcontext context);

/* To be called before the driver destroys a context. */
void launch_contexts_forget(CUcontext context);

/* Waits until all that was launched has run. No capture may be in progress. */
void launch_contexts_synchronize(void);

void launch_contexts_reset_in_child(void);
