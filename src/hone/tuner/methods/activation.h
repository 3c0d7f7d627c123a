// Activation functions by transformers' names, for tuners that are small networks.
#pragma once
#include <string>

#include "hone/device/tensor.h"

namespace hone::tuner {

using Activation = Tensor (*)(const Tensor&);

// Throws UserError(usage) naming the option and the functions there are.
Activation activation_called(const std::string& name, const char* option);

}  // namespace hone::tuner
