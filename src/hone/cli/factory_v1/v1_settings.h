// Settings of a v1 command: a file, then overrides (key=value, key.part=value or --key value).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/base/json.h"
#include "hone/cli/parsing/config_entries.h"

namespace hone::cli {

class V1Settings {
 public:
  V1Settings(const std::vector<std::string>& words, const SystemAccess& system);  // `words` after the command
  // `where` precedes keys in messages: "x.yaml: ", or "x.yaml: peft_config." of a plugin.
  V1Settings(std::string where, Json values) : where_(std::move(where)), values_(std::move(values)) {}

  // The value of a key, which then counts as read; null is none.
  std::optional<Json> take(const std::string& key);
  Json take_or(const std::string& key, Json otherwise);
  // The settings of a plugin such as peft_config, with a "name"; none without it.
  std::optional<V1Settings> take_plugin(const std::string& key);
  // Throws UserError(usage) for a key that nothing has read.
  void refuse_rest() const;

 private:
  void set(const std::string& key, const std::string& text);

  std::string where_;
  Json values_ = Json::object();
};

// As an argument: text as it is, lists joined by commas, everything else as JSON.
std::string v1_word(const Json& value);

// The arguments of `dataset` for `train_dataset`: a file, a hub id, or a YAML file that lists datasets.
std::string v1_datasets(const std::string& train_dataset, const SystemAccess& system);

}  // namespace hone::cli
