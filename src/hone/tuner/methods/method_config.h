// Reads a method's own fields of adapter_config.json, which is untrusted.
#pragma once
#include <type_traits>

#include "hone/io/peft.h"

namespace hone::tuner {

class MethodConfig {
 public:
  explicit MethodConfig(const io::AdapterConfig& config) : config_(config) {}

  // The field, or `otherwise` if missing or null. Throws UserError(bad_checkpoint) for another type.
  template <class T>
  T read(const char* key, T otherwise) const {
    const Json* value = find(key);
    if (!value) return otherwise;
    const bool fits = std::is_same_v<T, bool>   ? value->is_boolean()
                      : std::is_integral_v<T>   ? value->is_number_integer()
                      : std::is_arithmetic_v<T> ? value->is_number()
                                                : value->is_string();
    if (!fits) complain(key, "another type than this field has");
    return value->get<T>();
  }

  int64_t count(const char* key, int64_t otherwise, int64_t least = 1) const {
    const auto value = read<int64_t>(key, otherwise);
    if (value < least || value > (int64_t{1} << 40)) complain(key, fmt::format("{}, expected {} or more", value, least));
    return value;
  }

  const Json* find(const char* key) const {
    auto found = config_.extra_fields.find(key);
    return found == config_.extra_fields.end() || found->is_null() ? nullptr : &*found;
  }

  [[noreturn]] void complain(const char* key, const std::string& what) const {
    throw UserError(ExitCode::bad_checkpoint,
                    fmt::format("adapter_config.json of {}: \"{}\" is {}", config_.peft_type, key, what));
  }

 private:
  const io::AdapterConfig& config_;
};

}  // namespace hone::tuner
