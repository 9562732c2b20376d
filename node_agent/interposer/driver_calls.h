/* The calls of the CUDA driver API and of NVML that the library knows.
 *
 * INTERPOSED(result, name, parameters): the library exports a function of this name.
 * USED(result, name, parameters): it only calls the driver's. */
#pragma once

#include "driver_types.h"

/* Grid, block and shared memory. */
#define LAUNCH_SIZES                                                                                                   \
    unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int

#define DRIVER_CALLS(INTERPOSED, USED)                                                                                 \
    INTERPOSED(CUresult, cuGetProcAddress, (const char *, void **, int, uint64_t))                                     \
    INTERPOSED(CUresult, cuGetProcAddress_v2, (const char *, void **, int, uint64_t, int *))                           \
    INTERPOSED(CUresult, cuMemAlloc, (CUdeviceptr_v1 *, unsigned int))                                                 \
    INTERPOSED(CUresult, cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                       \
    INTERPOSED(CUresult, cuMemAllocPitch, (CUdeviceptr_v1 *, unsigned int *, unsigned int, unsigned int, unsigned int)) \
    INTERPOSED(CUresult, cuMemAllocPitch_v2, (CUdeviceptr *, size_t *, size_t, size_t, unsigned int))                  \
    INTERPOSED(CUresult, cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned int))                                     \
    INTERPOSED(CUresult, cuMemFree, (CUdeviceptr_v1))                                                                  \
    INTERPOSED(CUresult, cuMemFree_v2, (CUdeviceptr))                                                                  \
    INTERPOSED(CUresult, cuMemAllocAsync, (CUdeviceptr *, size_t, CUstream))                                           \
    INTERPOSED(CUresult, cuMemAllocAsync_ptsz, (CUdeviceptr *, size_t, CUstream))                                      \
    INTERPOSED(CUresult, cuMemAllocFromPoolAsync, (CUdeviceptr *, size_t, CUmemoryPool, CUstream))                     \
    INTERPOSED(CUresult, cuMemAllocFromPoolAsync_ptsz, (CUdeviceptr *, size_t, CUmemoryPool, CUstream))                \
    INTERPOSED(CUresult, cuMemFreeAsync, (CUdeviceptr, CUstream))                                                      \
    INTERPOSED(CUresult, cuMemFreeAsync_ptsz, (CUdeviceptr, CUstream))                                                 \
    INTERPOSED(CUresult, cuMemPoolCreate, (CUmemoryPool *, const CUmemPoolProps *))                                    \
    INTERPOSED(CUresult, cuMemPoolDestroy, (CUmemoryPool))                                                             \
    INTERPOSED(CUresult, cuMemGetDefaultMemPool, (CUmemoryPool *, const CUmemLocation *, int))                         \
    INTERPOSED(CUresult, cuMemGetMemPool, (CUmemoryPool *, const CUmemLocation *, int))                                \
    INTERPOSED(CUresult, cuMemPoolTrimTo, (CUmemoryPool, size_t))                                                      \
    INTERPOSED(CUresult, cuStreamSynchronize, (CUstream))                                                              \
    INTERPOSED(CUresult, cuStreamSynchronize_ptsz, (CUstream))                                                         \
    INTERPOSED(CUresult, cuCtxSynchronize, (void))                                                                     \
    INTERPOSED(CUresult, cuMemCreate,                                                                                  \
               (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long))              \
    INTERPOSED(CUresult, cuMemRelease, (CUmemGenericAllocationHandle))                                                 \
    INTERPOSED(CUresult, cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle *, void *))                        \
    INTERPOSED(CUresult, cuMemMap,                                                                                     \
               (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long))                        \
    INTERPOSED(CUresult, cuMemUnmap, (CUdeviceptr, size_t))                                                            \
    INTERPOSED(CUresult, cuArrayCreate, (CUarray *, const CUDA_ARRAY_DESCRIPTOR_v1 *))                                 \
    INTERPOSED(CUresult, cuArrayCreate_v2, (CUarray *, const CUDA_ARRAY_DESCRIPTOR *))                                 \
    INTERPOSED(CUresult, cuArray3DCreate, (CUarray *, const CUDA_ARRAY3D_DESCRIPTOR_v1 *))                             \
    INTERPOSED(CUresult, cuArray3DCreate_v2, (CUarray *, const CUDA_ARRAY3D_DESCRIPTOR *))                             \
    INTERPOSED(CUresult, cuArrayDestroy, (CUarray))                                                                    \
    INTERPOSED(CUresult, cuMipmappedArrayCreate,                                                                       \
               (CUmipmappedArray *, const CUDA_ARRAY3D_DESCRIPTOR *, unsigned int))                                    \
    INTERPOSED(CUresult, cuMipmappedArrayDestroy, (CUmipmappedArray))                                                  \
    INTERPOSED(CUresult, cuMemGetInfo, (unsigned int *, unsigned int *))                                               \
    INTERPOSED(CUresult, cuMemGetInfo_v2, (size_t *, size_t *))                                                        \
    INTERPOSED(CUresult, cuDeviceTotalMem, (unsigned int *, CUdevice))                                                 \
    INTERPOSED(CUresult, cuDeviceTotalMem_v2, (size_t *, CUdevice))                                                    \
    INTERPOSED(CUresult, cuCtxSetLimit, (int, size_t))                                                                 \
    INTERPOSED(CUresult, cuCtxDestroy, (CUcontext))                                                                    \
    INTERPOSED(CUresult, cuCtxDestroy_v2, (CUcontext))                                                                 \
    INTERPOSED(CUresult, cuDevicePrimaryCtxReset, (CUdevice))                                                          \
    INTERPOSED(CUresult, cuDevicePrimaryCtxReset_v2, (CUdevice))                                                       \
    INTERPOSED(CUresult, cuDevicePrimaryCtxRelease, (CUdevice))                                                        \
    INTERPOSED(CUresult, cuDevicePrimaryCtxRelease_v2, (CUdevice))                                                     \
    INTERPOSED(CUresult, cuGreenCtxDestroy, (CUgreenCtx))                                                              \
    INTERPOSED(CUresult, cuGraphInstantiate, (CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t))                  \
    INTERPOSED(CUresult, cuGraphInstantiate_v2, (CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t))               \
    INTERPOSED(CUresult, cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long))                    \
    INTERPOSED(CUresult, cuGraphInstantiateWithParams, (CUgraphExec *, CUgraph, void *))                               \
    INTERPOSED(CUresult, cuGraphInstantiateWithParams_ptsz, (CUgraphExec *, CUgraph, void *))                          \
    INTERPOSED(CUresult, cuGraphExecDestroy, (CUgraphExec))                                                            \
    INTERPOSED(CUresult, cuDeviceGraphMemTrim, (CUdevice))                                                             \
    INTERPOSED(CUresult, cuLaunchKernel, (CUfunction, LAUNCH_SIZES, CUstream, void **, void **))                       \
    INTERPOSED(CUresult, cuLaunchKernelEx, (const CUlaunchConfig *, CUfunction, void **, void **))                     \
    INTERPOSED(CUresult, cuLaunchCooperativeKernel, (CUfunction, LAUNCH_SIZES, CUstream, void **))                     \
    INTERPOSED(CUresult, cuGraphLaunch, (CUgraphExec, CUstream))                                                       \
    INTERPOSED(CUresult, cuStreamBeginCapture, (CUstream))                                                             \
    INTERPOSED(CUresult, cuStreamBeginCapture_v2, (CUstream, int))                                                     \
    INTERPOSED(CUresult, cuStreamBeginCaptureToGraph,                                                                  \
               (CUstream, CUgraph, const CUgraphNode *, const void *, size_t, int))                                    \
    INTERPOSED(CUresult, cuStreamBeginRecaptureToGraph, (CUstream, int, CUgraph, void *, void *))                      \
    INTERPOSED(CUresult, cuStreamEndCapture, (CUstream, CUgraph *))                                                    \
    INTERPOSED(CUresult, cuLaunchKernel_ptsz, (CUfunction, LAUNCH_SIZES, CUstream, void **, void **))                  \
    INTERPOSED(CUresult, cuLaunchKernelEx_ptsz, (const CUlaunchConfig *, CUfunction, void **, void **))                \
    INTERPOSED(CUresult, cuLaunchCooperativeKernel_ptsz, (CUfunction, LAUNCH_SIZES, CUstream, void **))                \
    INTERPOSED(CUresult, cuGraphLaunch_ptsz, (CUgraphExec, CUstream))                                                  \
    INTERPOSED(CUresult, cuStreamBeginCapture_ptsz, (CUstream))                                                        \
    INTERPOSED(CUresult, cuStreamBeginCapture_v2_ptsz, (CUstream, int))                                                \
    INTERPOSED(CUresult, cuStreamBeginCaptureToGraph_ptsz,                                                             \
               (CUstream, CUgraph, const CUgraphNode *, const void *, size_t, int))                                    \
    INTERPOSED(CUresult, cuStreamBeginRecaptureToGraph_ptsz, (CUstream, int, CUgraph, void *, void *))                 \
    INTERPOSED(CUresult, cuStreamEndCapture_ptsz, (CUstream, CUgraph *))                                               \
    INTERPOSED(CUresult, cuLaunchCooperativeKernelMultiDevice, (void *, unsigned int, unsigned int))                   \
    INTERPOSED(CUresult, cuLaunch, (CUfunction))                                                                       \
    INTERPOSED(CUresult, cuLaunchGrid, (CUfunction, int, int))                                                         \
    INTERPOSED(CUresult, cuLaunchGridAsync, (CUfunction, int, int, CUstream))                                          \
    INTERPOSED(CUresult, cuStreamDestroy, (CUstream))                                                                  \
    INTERPOSED(CUresult, cuStreamDestroy_v2, (CUstream))                                                               \
    INTERPOSED(nvmlReturn_t, nvmlDeviceGetMemoryInfo, (nvmlDevice_t, nvmlMemory_t *))                                  \
    INTERPOSED(nvmlReturn_t, nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t, nvmlMemory_v2_t *))                            \
    USED(CUresult, cuCtxGetCurrent, (CUcontext *))                                                                     \
    USED(CUresult, cuCtxFromGreenCtx, (CUcontext *, CUgreenCtx))                                                       \
    USED(CUresult, cuCtxGetDevice, (CUdevice *))                                                                       \
    USED(CUresult, cuCtxPushCurrent_v2, (CUcontext))                                                                   \
    USED(CUresult, cuCtxPopCurrent_v2, (CUcontext *))                                                                  \
    USED(CUresult, cuDeviceGetAttribute, (int *, int, CUdevice))                                                       \
    USED(CUresult, cuDeviceGetUuid, (CUuuid *, CUdevice))                                                              \
    USED(CUresult, cuDeviceGetMemPool, (CUmemoryPool *, CUdevice))                                                     \
    USED(CUresult, cuDeviceGetDefaultMemPool, (CUmemoryPool *, CUdevice))                                              \
    USED(CUresult, cuDeviceGetCount, (int *))                                                                          \
    USED(CUresult, cuMemPoolGetAttribute, (CUmemoryPool, int, void *))                                                 \
    USED(CUresult, cuDeviceGetGraphMemAttribute, (CUdevice, int, void *))                                              \
    USED(CUresult, cuStreamGetCtx, (CUstream, CUcontext *))                                                            \
    USED(CUresult, cuStreamGetCaptureInfo_v2,                                                                          \
         (CUstream, int *, uint64_t *, CUgraph *, const CUgraphNode **, size_t *))                                     \
    USED(CUresult, cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                                  \
    USED(CUresult, cuDevicePrimaryCtxGetState, (CUdevice, unsigned int *, int *))                                      \
    USED(CUresult, cuArrayGetMemoryRequirements, (CUDA_ARRAY_MEMORY_REQUIREMENTS *, CUarray, CUdevice))                \
    USED(CUresult, cuMipmappedArrayGetMemoryRequirements,                                                              \
         (CUDA_ARRAY_MEMORY_REQUIREMENTS *, CUmipmappedArray, CUdevice))                                               \
    USED(CUresult, cuGraphGetNodes, (CUgraph, CUgraphNode *, size_t *))                                                \
    USED(CUresult, cuGraphNodeGetType, (CUgraphNode, int *))                                                           \
    USED(CUresult, cuGraphMemAllocNodeGetParams, (CUgraphNode, CUDA_MEM_ALLOC_NODE_PARAMS *))                          \
    USED(CUresult, cuGraphMemFreeNodeGetParams, (CUgraphNode, CUdeviceptr *))                                          \
    USED(CUresult, cuGraphChildGraphNodeGetGraph, (CUgraphNode, CUgraph *))                                            \
    USED(nvmlReturn_t, nvmlDeviceGetUUID, (nvmlDevice_t, char *, unsigned int))

#define EXPORTED __attribute__((visibility("default")))

#define DECLARE_INTERPOSED(result, name, parameters) EXPORTED result name parameters;
#define DECLARE_USED(result, name, parameters) result name parameters;
DRIVER_CALLS(DECLARE_INTERPOSED, DECLARE_USED)
#undef DECLARE_INTERPOSED
#undef DECLARE_USED

#define NUMBER(result, name, parameters) CALL_##name,
enum driver_call { DRIVER_CALLS(NUMBER, NUMBER) DRIVER_CALL_COUNT };
#undef NUMBER
