// Programmatic dependent launch (compute capability 9.0 and later): a kernel may start while the previous one ends, which hides
// the launch latency of the many small kernels of a decode step. Such a kernel calls wait_for_previous() before it reads results
// of another kernel or writes anything; weights may be read earlier.
#pragma once
#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>

namespace hone::ops::cuda {

__device__ inline void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
__device__ inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

inline bool has_dependent_launches() {
  static const bool has = [] {
    int device = 0, major = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major >= 9;
  }();
  return has;
}

template <class... Parameters, class... Arguments>
void launch_dependent(void (*kernel)(Parameters...), dim3 grid, dim3 threads, cudaStream_t stream, Arguments... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid, config.blockDim = threads, config.stream = stream;
  config.attrs = &attribute, config.numAttrs = has_dependent_launches() ? 1 : 0;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

}  // namespace hone::ops::cuda
