// The modules selected by an adapter config: PEFT's rules on Hugging Face paths.
#pragma once
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "hone/io/peft.h"
#include "hone/model/layers.h"

namespace hone::tuner {

// "q_proj" of "model.layers.0.self_attn.q_proj".
std::string_view last_part(std::string_view path);
// The first number between dots; -1 when there is none.
int64_t layer_index(std::string_view path);
// A regular expression for this path alone.
std::string escaped_path(std::string_view path);
// True when `path` is `name` or ends in ".name".
bool ends_in(std::string_view path, std::string_view name);
// Throws UserError(usage) quoting the expression.
std::regex compile_regex(const std::string& expression, const char* option);

class TargetMatcher {
 public:
  explicit TargetMatcher(const io::AdapterConfig& config);
  bool operator()(const std::string& path) const;   // is the module adapted?
  bool parameter(const std::string& name) const;    // is the parameter, by target_parameters?
  bool slot(const model::AdapterSlot& slot) const;  // by whichever of both decides it
  int64_t rank(const std::string& path) const;      // with rank_pattern
  double alpha(const std::string& path) const;      // with alpha_pattern

 private:
  bool in_chosen_layer(const std::string& path) const;
  bool is_module_to_save(const std::string& path) const;

  const io::AdapterConfig config_;
  std::regex target_, excluded_;
  std::vector<std::regex> rank_keys_, alpha_keys_;
};

// True if modules_to_save names a module that contains the parameter.
bool saves_parameter(const std::vector<std::string>& modules_to_save, std::string_view parameter);

}  // namespace hone::tuner
