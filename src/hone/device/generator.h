// The random numbers of a device.
#pragma once
#include "hone/device/tensor.h"

namespace hone::device {

// The generator of dropout and initialization on this device.
at::Generator default_generator(at::Device device);

// Seeds the generators of every device.
void seed(uint64_t value);

}  // namespace hone::device
