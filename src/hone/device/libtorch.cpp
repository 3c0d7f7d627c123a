#include "hone/device/libtorch.h"

#include <dlfcn.h>

#include "hone/base/error.h"
#include "hone/device/tensor.h"

namespace hone::device {

std::filesystem::path libtorch_folder() {
  Dl_info info{};
  HONE_CHECK(::dladdr(reinterpret_cast<void*>(&at::get_num_threads), &info) && info.dli_fname, "libtorch is not a file");
  return std::filesystem::path(info.dli_fname).parent_path().lexically_normal();
}

bool libtorch_made_for_cuda() { return std::filesystem::exists(libtorch_folder() / "libtorch_cuda.so"); }

}  // namespace hone::device
