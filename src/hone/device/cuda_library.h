// libtorch's CUDA library, which is not linked if hone was built without nvcc.
#pragma once

namespace hone::device {

// Call it before libtorch is first asked about devices, since it caches the answer. Loads the library if it is next to libtorch
// and this machine has NVIDIA's driver; elsewhere it would only cost time, and it cannot share a process with torch_npu.
void load_cuda_library();

}  // namespace hone::device
