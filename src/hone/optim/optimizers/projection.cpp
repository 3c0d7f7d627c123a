#include "hone/optim/optimizers/projection.h"

#include <algorithm>

#include "hone/base/error.h"
#include "hone/optim/optimizers/muon.h"

namespace hone::optim {

Projection projection_side(const std::string& kind, const Tensor& parameter) {
  const bool tall = parameter.size(0) >= parameter.size(1);
  if (kind == "std") return tall ? Projection::right : Projection::left;
  if (kind == "reverse_std") return tall ? Projection::left : Projection::right;
  if (kind == "left") return Projection::left;
  if (kind == "right") return Projection::right;
  if (kind == "full") return Projection::full;
  throw UserError(ExitCode::usage, fmt::format("proj_type is \"{}\"", kind), "one of std, reverse_std, right, left, full");
}

bool is_projected(const std::vector<std::string>& targets, const std::string& name, const Tensor& parameter) {
  if (parameter.dim() != 2) return false;
  return std::ranges::any_of(targets, [&](const std::string& target) {
    return target == "all" || target == "all-linear" ? is_hidden_matrix(name, parameter) : name.find(target) != std::string::npos;
  });
}

}  // namespace hone::optim
