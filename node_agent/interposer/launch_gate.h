/* The launch gate: work is launched on the GPU while it is open. docs/isolation.md, "The launch gate".
 *
 * A thread of the library takes turns for the process and opens and closes the gate (launch_turns.c). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "driver_types.h"

/* Waits until the gate is open, unless the stream is being captured. The gate does not close before `launch_leave`. */
void launch_enter(CUstream stream);
void launch_leave(void);

void launch_gate_open(void);

/* Closes the gate, and waits until no launch is between `launch_enter` and `launch_leave`. False: a capture is in progress, and the gate
 * is open as before. */
bool launch_gate_close(void);

/* Whether a launch waits for the gate to open. */
bool launch_is_waiting(void);

/* Waits until a launch waits for the gate, or until the time is over. */
void launch_gate_await_waiting(long long nanoseconds);

/* How many times launches have entered. */
uint64_t launch_count(void);

void launch_gate_reset_in_child(void);
