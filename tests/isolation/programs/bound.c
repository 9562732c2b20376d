/* A library that is linked to the driver and calls it. */
#include "attempt.h"

int allocate(CUdeviceptr *pointer, size_t bytes)
{
    return cuMemAlloc_v2(pointer, bytes);
}
