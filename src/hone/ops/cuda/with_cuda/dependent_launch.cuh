// Launches whose kernel may begin while the one before it ends (programmatic dependent launch, from compute capability 9.0 on):
// the many small kernels of a decode step then do not pay for beginning and ending each. Such a kernel calls wait_for_previous()
// before it reads what another wrote, or writes anything; weights may be read earlier.
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

struct LaunchShape {
  dim3 grid, threads;
  unsigned shared = 0;   // bytes of dynamic shared memory
  unsigned cluster = 1;  // so many blocks, neighbors in z, read each other's shared memory (from 9.0 on)
};

template <class... Parameters, class... Arguments>
void launch_dependent(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream, Arguments... arguments) {
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = attributes[1].val.clusterDim.y = 1, attributes[1].val.clusterDim.z = shape.cluster;
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid, config.blockDim = shape.threads, config.dynamicSmemBytes = shape.shared, config.stream = stream;
  config.attrs = attributes, config.numAttrs = !has_dependent_launches() ? 0 : shape.cluster > 1 ? 2 : 1;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}
template <class... Parameters, class... Arguments>
void launch_dependent(void (*kernel)(Parameters...), dim3 grid, dim3 threads, cudaStream_t stream, Arguments... arguments) {
  launch_dependent(kernel, LaunchShape{grid, threads}, stream, arguments...);
}

}  // namespace hone::ops::cuda
