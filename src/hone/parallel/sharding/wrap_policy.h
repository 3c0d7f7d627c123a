// FSDP's size-based wrap policy: which parameters of a unit are gathered as one buffer.
#pragma once
#include <vector>

#include "hone/model/named_parameter.h"

namespace hone::parallel {

struct ShardUnits {
  std::vector<std::vector<model::NamedParameter>>
      units;                                // modules that are large enough, without what is in smaller ones already
  std::vector<model::NamedParameter> root;  // belongs to the full model, which is there from the first use to the last
};

ShardUnits size_based_wrap(const std::vector<model::NamedParameter>& parameters, int64_t least);

}  // namespace hone::parallel
