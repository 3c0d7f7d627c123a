// The random numbers of a device.
#pragma once
#include "hone/device/tensor.h"

namespace hone::device {

// What dropout and initialization on this device draw from.
at::Generator default_generator(at::Device device);

// Seeds the generators of every device.
void seed(uint64_t value);

}  // namespace hone::device
