// Precompiled for every file of the emulator that computes.
#pragma once
#include <ATen/ATen.h>

#include "cann_emulator/ops/operator.h"
