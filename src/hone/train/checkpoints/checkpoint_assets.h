// The files next to trained weights (tokenizer, config.json, args.json, model card) that make a checkpoint folder loadable.
#pragma once
#include <string>

#include "hone/base/file.h"
#include "hone/base/json.h"
#include "hone/text/new_tokens.h"
#include "hone/train/config.h"

namespace hone::train {

// A template given as a file, copied next to the args.json that names it.
inline constexpr const char* kTemplateFile = "template.jinja";

struct CheckpointAssets {
  fs::path model_folder;     // where config and tokenizer are copied from
  std::string model_name;    // for the model card
  std::string tuner;         // "lora", "full", "freeze", "vera" …
  bool adapter = true;       // not full weights
  std::string weights_type;  // "float32" …: config.json's dtype of a full model
  Layout layout = Layout::swift;
  Json args;                                         // args.json
  Json additional;                                   // additional_config.json of ms-swift's LoRA; null: none
  Json config_changes = Json::object();              // changes of the base's config.json in that of a full model
  text::NewTokens new_tokens;                        // with them the tokenizer is written next to adapters too
  std::shared_ptr<const text::Tokenizer> tokenizer;  // with these tokens

  void write(const fs::path& folder) const;
};

// Writes `args` as args.json of `folder`. A template file is copied too: later readers open nothing outside the folder.
void write_args(const fs::path& folder, Json args);

}  // namespace hone::train
