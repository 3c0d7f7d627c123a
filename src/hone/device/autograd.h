// Functions with custom gradients. Kept out of tensor.h: few files need it, and it doubles the compile time of each.
#pragma once
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "hone/device/tensor.h"
