// How NPUs compute, from the options that say so.
#pragma once
#include "hone/cli/options.h"

namespace hone::cli {

void choose_npu_kernels(const Options& options);

}  // namespace hone::cli
