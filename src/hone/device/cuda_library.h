// libtorch's CUDA part, where it is not linked because hone was built without nvcc.
#pragma once

namespace hone::device {

// Before libtorch is first asked about devices, since it caches the answer. Loads the part if it is beside libtorch
// and this machine has NVIDIA's driver; elsewhere it would only cost time, and it cannot share a process with torch_npu.
void load_cuda_library();

}  // namespace hone::device
