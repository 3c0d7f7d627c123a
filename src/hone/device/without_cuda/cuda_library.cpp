#include "hone/device/cuda_library.h"

#include <dlfcn.h>

#include "hone/base/log.h"
#include "hone/device/libtorch.h"
#include "hone/device/npu/install.h"

namespace hone::device {

void load_cuda_library() {
  if (!libtorch_made_for_cuda() || !::dlopen("libcuda.so.1", RTLD_LAZY)) return;
  if (auto ascend = npu::find_installation(); ascend.emulated || !ascend.cards.empty()) return;
  if (!::dlopen((libtorch_folder() / "libtorch_cuda.so").c_str(), RTLD_NOW | RTLD_GLOBAL))
    log::warning("libtorch's CUDA part cannot be loaded: {}", ::dlerror());
}

bool has_cuda_kernels() { return false; }

}  // namespace hone::device
