/* What another thread may do between the end of a call's work and its return. */
#include <string.h>

#include "fake_driver.h"

static const char *interrupted_call;
static void (*interruption)(void);

/* `function` runs once, at the end of the next call of this name. */
FAKE void cuFakeBeforeReturn(const char *call, void (*function)(void))
{
    interrupted_call = call;
    interruption = function;
}

void before_return(const char *call)
{
    void (*function)(void) = interruption;
    if (function == NULL || strcmp(call, interrupted_call) != 0)
        return;
    interruption = NULL;
    function();
}
