#include "hone/device/cuda_part.h"

namespace hone::device {

void load_cuda_part() {}  // linked: hone's own kernels need it

}  // namespace hone::device
