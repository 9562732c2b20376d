/* The calls that launch work on the GPU: kernels and graphs. */
#include "graph_memory.h"
#include "launch_gate.h"
#include "symbols.h"

#define LAUNCH(name, stream, ...)                                                                                      \
    __typeof__(&name) real = REAL(name);                                                                               \
    if (real == NULL)                                                                                                  \
        return CUDA_ERROR_NOT_INITIALIZED;                                                                             \
    launch_enter(stream);                                                                                              \
    CUresult result = real(__VA_ARGS__);                                                                               \
    launch_leave();                                                                                                    \
    return result

static CUstream or_per_thread(CUstream stream)
{
    return stream != NULL ? stream : CU_STREAM_PER_THREAD;
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
                        unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream, void **parameters,
                        void **extra)
{
    LAUNCH(cuLaunchKernel, stream, function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters,
           extra);
}

CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                             unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                             CUstream stream, void **parameters, void **extra)
{
    LAUNCH(cuLaunchKernel_ptsz, or_per_thread(stream), function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
           stream, parameters, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
    LAUNCH(cuLaunchKernelEx, config != NULL ? config->stream : NULL, config, function, parameters, extra);
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
    LAUNCH(cuLaunchKernelEx_ptsz, or_per_thread(config != NULL ? config->stream : NULL), config, function, parameters, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                   unsigned int block_x, unsigned int block_y, unsigned int block_z,
                                   unsigned int shared_bytes, CUstream stream, void **parameters)
{
    LAUNCH(cuLaunchCooperativeKernel, stream, function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
           parameters);
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                        unsigned int block_x, unsigned int block_y, unsigned int block_z,
                                        unsigned int shared_bytes, CUstream stream, void **parameters)
{
    LAUNCH(cuLaunchCooperativeKernel_ptsz, or_per_thread(stream), function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
           shared_bytes, stream, parameters);
}

CUresult cuLaunchCooperativeKernelMultiDevice(void *launches, unsigned int devices, unsigned int flags)
{
    LAUNCH(cuLaunchCooperativeKernelMultiDevice, NULL, launches, devices, flags);
}

CUresult cuLaunch(CUfunction function)
{
    LAUNCH(cuLaunch, NULL, function);
}

CUresult cuLaunchGrid(CUfunction function, int width, int height)
{
    LAUNCH(cuLaunchGrid, NULL, function, width, height);
}

CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream)
{
    LAUNCH(cuLaunchGridAsync, stream, function, width, height, stream);
}

static CUresult launch_graph(__typeof__(&cuGraphLaunch) real, CUgraphExec executable, CUstream stream, CUstream used)
{
    if (real == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    launch_enter(used);
    struct graph_change change = graph_memory_begin(GRAPH_LAUNCH, (uintptr_t)executable);
    CUresult result = real(executable, stream);
    graph_memory_end(change, result == CUDA_SUCCESS);
    launch_leave();
    return result;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream)
{
    return launch_graph(REAL(cuGraphLaunch), executable, stream, stream);
}

CUresult cuGraphLaunch_ptsz(CUgraphExec executable, CUstream stream)
{
    return launch_graph(REAL(cuGraphLaunch_ptsz), executable, stream, or_per_thread(stream));
}
