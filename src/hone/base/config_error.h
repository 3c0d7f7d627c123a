// A config that violates a rule of its component. Each component checks its own config with a function validate(config).
#pragma once
#include "hone/base/error.h"

namespace hone {

class ConfigError : public UserError {
 public:
  explicit ConfigError(std::string message, std::string hint = "")
      : UserError(ExitCode::usage, std::move(message), std::move(hint)) {}
};

// Throws ConfigError unless the rule holds. For rules whose texts contain no values.
inline void require(bool holds, std::string_view message, std::string_view hint = "") {
  if (!holds) throw ConfigError(std::string(message), std::string(hint));
}

}  // namespace hone
