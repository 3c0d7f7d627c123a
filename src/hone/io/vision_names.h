// Vision models whose files use other names than their module tree: "visual.…" and "model.…" of Qwen2-VL and Qwen2.5-VL for what
// transformers calls "model.visual.…" and "model.language_model.…" since 4.52; "vision_tower.…", "language_model.model.…" of
// InternVL and Gemma 3 for "model.vision_tower.…", "model.language_model.…". Folders are read with either names and written with
// the older ones, which transformers writes too.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "hone/base/json.h"
#include "hone/io/safetensors.h"

namespace hone::io {

class StoredNames {
 public:
  StoredNames() = default;                    // one spelling
  static StoredNames of(const Json& config);  // config.json's content
  bool empty() const { return prefixes_.empty(); }
  std::string module_name(const std::string& stored) const;
  std::string stored_name(const std::string& module) const;
  std::vector<TensorSource> stored(std::vector<TensorSource> sources) const;

 private:
  struct Prefix {
    std::string_view stored, module;
  };
  std::vector<Prefix> prefixes_;
};

}  // namespace hone::io
