// Functions with a gradient of their own. Kept out of tensor.h: few files need it, and it doubles what each would pay.
#pragma once
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "hone/device/tensor.h"
