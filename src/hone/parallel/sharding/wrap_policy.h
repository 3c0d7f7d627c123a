// FSDP's size-based wrap policy: which parameters of a unit are gathered as one buffer.
#pragma once
#include <string>
#include <vector>

#include "hone/model/named_parameter.h"

namespace hone::parallel {

struct ShardUnits {
  std::vector<std::vector<model::NamedParameter>> units;  // modules that are large enough, without parameters of smaller units
  std::vector<model::NamedParameter> root;                // root parameters, which stay gathered from first to last use
};

// `modules`: the paths of the model's units. What is above them is a list of modules or the model, whose parameters are not
// gathered with a part's.
ShardUnits size_based_wrap(const std::vector<model::NamedParameter>& parameters, const std::vector<std::string>& modules,
                           int64_t least);

}  // namespace hone::parallel
