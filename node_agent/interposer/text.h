/* Comparisons of text for what runs inside dlsym, without the C library: a sanitizer's own strcmp works only after its calls of dlsym. */
#pragma once

#include <stdbool.h>

/* `volatile`, or the compiler makes calls of the C library from the loops. */
static inline bool begins_with(const volatile char *text, const volatile char *prefix)
{
    for (; *prefix != 0; text++, prefix++)
        if (*text != *prefix)
            return false;
    return true;
}

static inline bool is_same(const volatile char *a, const volatile char *b)
{
    for (; *a == *b; a++, b++)
        if (*a == 0)
            return true;
    return false;
}
