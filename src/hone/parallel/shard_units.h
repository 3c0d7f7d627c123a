// What of a part is gathered as one buffer, by size: FSDP's policy that wraps every module of so many parameters, from the leaves up.
#pragma once
#include <vector>

#include "hone/model/named_parameter.h"

namespace hone::parallel {

struct ShardUnits {
  std::vector<std::vector<model::NamedParameter>> own;  // modules that are large enough, without what is in smaller ones already
  std::vector<model::NamedParameter> rest;              // belongs to the whole model, which is there from the first use to the last
};

ShardUnits units_by_size(const std::vector<model::NamedParameter>& parameters, int64_t least);

}  // namespace hone::parallel
