/* The thread that takes turns for the process and opens and closes the launch gate accordingly. */
#pragma once

#include <stdbool.h>

/* False: the thread cannot be started. Signals are blocked in it as in the caller. */
bool launch_turns_start(void);

void launch_turns_reset_in_child(void);
