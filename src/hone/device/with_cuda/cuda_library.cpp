#include "hone/device/cuda_library.h"

namespace hone::device {

void load_cuda_library() {}  // linked: hone's own kernels need it

}  // namespace hone::device
