// Creates an optimizer by the name of Hugging Face's `optim` option.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hone/optim/optimizers/adam.h"

namespace hone::optim {

struct OptimizerConfig {
  std::string name = "adamw_torch";
  AdamConfig adam;  // adam_beta1, adam_beta2, adam_epsilon
  // optim_args: rank, update_proj_gap, scale, proj_type (GaLore), momentum, nesterov …; a value may be a string, as in "rank=64".
  Json arguments = Json::object();
  std::vector<std::string> target_modules = {"all"};  // optim_target_modules, galore_target
  MatrixShards matrices;                              // for optimizers that need full ones: muon
  bool per_parameter = false;                         // updates in the backward pass, parameter by parameter
  std::optional<int64_t> parameter_index;             // then, in the config of each: its index among all
};

const std::vector<std::string>& optimizer_names();
// Whether a run with one can resume from the state of the other.
bool share_state(std::string_view optimizer, std::string_view other);
void validate(const OptimizerConfig& config);  // throws UserError(usage) for unknown names and arguments
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, std::vector<ParameterGroup> groups);

}  // namespace hone::optim
