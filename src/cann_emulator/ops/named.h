// Operators that CANN identifies by name (aclop).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "cann_emulator/ops/operator.h"

namespace cann {

struct Attributes {
  std::map<std::string, bool, std::less<>> flags;
};

// Ready to launch; null when there is no such operator here.
aclOpExecutor* named_operator(const std::string& name, const std::vector<aclTensor>& inputs,
                              const std::vector<aclTensor>& outputs, const Attributes& attributes);

}  // namespace cann
