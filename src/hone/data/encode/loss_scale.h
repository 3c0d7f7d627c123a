// ms-swift's loss_scale: which parts of a response are trained on, and with what weight.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hone::data {

struct WeightedText {
  std::string text;
  double weight;
};

// A name registered by a plugin. `weigh` is thread-safe and throws text::FormatError if a text gets no weights.
struct PluginLossScale {
  bool binary = true;
  std::function<std::vector<WeightedText>(const std::string& text, const std::string& query)> weigh;
};
// For encoders created afterwards. Built-in names take precedence.
void add_loss_scale(const std::string& name, PluginLossScale scale);
bool is_loss_scale(const std::string& name);

// base[+name…]: base is default (every response), last_round or all; names refine responses and their weights multiply.
class LossScale {
 public:
  enum class Base { every_response, last_round, all };

  // Throws UserError(usage) listing the known names.
  explicit LossScale(const std::string& words);

  Base base() const { return base_; }
  bool binary() const;  // weights are only 0 and 1
  bool has(std::string_view name) const;
  bool has_names() const { return !names_.empty(); }
  std::vector<WeightedText> weigh(const std::string& text, const std::string& query) const;

 private:
  Base base_ = Base::every_response;
  std::vector<std::string> names_;
};

}  // namespace hone::data
