/* The driver's functions, and the library's own in their place wherever a program asks for them by name. */
#pragma once

#include "driver_calls.h"

/* The driver's function, or NULL if the driver is not loaded or does not have it. */
void *driver_symbol(enum driver_call call);

#define REAL(name) ((__typeof__(&name))driver_symbol(CALL_##name))

/* What the program gets for the driver's function `found` that it asked for as `name`: see cuGetProcAddress.
 *
 * The names of cuGetProcAddress have no suffix, and a version and flags choose the function. */
void *interposed_function(const char *name, void *found, int version, uint64_t flags);
