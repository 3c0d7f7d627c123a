// Keyword arguments of an optimizer or of a learning-rate schedule: `optim_args` and `lr_scheduler_kwargs`.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/base/json.h"

namespace hone::optim {

Json parse_optim_args(const std::string& text);  // "rank=64, scale=2" to an object of strings

// Each is taken once; remaining ones are unknown. A value may be typed or text. All throw UserError(usage).
class Kwargs {
 public:
  // `option`: in which they are given; `owner`: the optimizer or schedule that takes them.
  Kwargs(std::string option, std::string owner, const Json& given);

  std::optional<double> number(const char* key);
  double number(const char* key, double otherwise) { return number(key).value_or(otherwise); }
  int64_t whole(const char* key, int64_t otherwise);
  int64_t positive(const char* key, int64_t otherwise);
  bool truth(const char* key, bool otherwise);
  std::string text(const char* key, const std::string& otherwise) { return take(key).value_or(otherwise); }
  std::string choice(const char* key, const std::vector<std::string>& choices, const std::string& otherwise);
  std::string choice(const char* key, const std::vector<std::string>& choices) { return choice(key, choices, choices.front()); }
  void finish(const std::string& advice = "") const;  // throws if some were not taken
  const Json& left() const { return left_; }

 private:
  std::optional<std::string> take(const char* key);
  [[noreturn]] void wrong(const char* key, const std::string& found, const std::string& expected) const;

  std::string option_, owner_;
  Json left_;
};

}  // namespace hone::optim
