// Precompiled for components that use libtorch.
#pragma once
#include "hone/base/pch.h"
#include "hone/device/tensor.h"
