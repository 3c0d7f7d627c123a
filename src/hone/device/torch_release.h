// Which libtorch this is built with. NPU servers may have 2.7.1.
#pragma once
#include <torch/version.h>

#define HONE_TORCH_2_11 (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 11)
