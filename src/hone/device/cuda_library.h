// libtorch's CUDA library and hone's own kernels for NVIDIA GPUs. A build without nvcc has no such kernels and does not link the
// library.
#pragma once

namespace hone::device {

// Call it before libtorch is first asked about devices, since it caches the answer. Loads the library if it is next to libtorch
// and this machine has NVIDIA's driver; elsewhere it would only cost time, and it cannot share a process with torch_npu.
void load_cuda_library();

bool has_cuda_kernels();

}  // namespace hone::device
