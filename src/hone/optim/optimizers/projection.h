// Low-rank projections of a matrix's gradient, shared by GaLore and APOLLO: the matrices that have one, and the side.
#pragma once
#include <string>
#include <vector>

#include "hone/device/tensor.h"

namespace hone::optim {

enum class Projection { none, left, right, full };

// `kind`: std (the shorter side is kept), reverse_std, left, right, full. Throws UserError(usage) for another one.
Projection projection_side(const std::string& kind, const Tensor& parameter);

// "all" and "all-linear" mean every hidden matrix; anything else is searched in the parameter's name.
bool is_projected(const std::vector<std::string>& targets, const std::string& name, const Tensor& parameter);

}  // namespace hone::optim
