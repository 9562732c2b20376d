/* Symbols of the process's shared objects, read from their ELF images.
 *
 * The library must not ask dlsym for them: it replaces dlsym, and a program may replace it as well. */
#pragma once

#include <stdbool.h>

/* The start of the first object of the process whose SONAME begins with `soname_prefix`, or NULL. */
const void *object_named(const char *soname_prefix);

/* Whether the process still has an object that starts at `object`, of such a SONAME. */
bool object_is_loaded(const void *object, const char *soname_prefix);

/* The address of an exported function of the object that starts at `object`, or NULL. */
void *object_symbol(const void *object, const char *name);

/* Whether the SONAME of the object that starts at `object` begins with `prefix`. */
bool object_has_soname(const void *object, const char *prefix);

/* The same in the object with this SONAME, which was loaded when the program started, or NULL. It calls nothing: programs replace
 * dl_iterate_phdr too, and find libc's by dlsym. */
void *startup_symbol(const char *soname, const char *name);
