// A JSON file of a model folder, read field by field. A field of another type than expected is a UserError that names file and
// key.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/base/file.h"
#include "hone/base/json.h"
#include "hone/text/tokenizer.h"

namespace hone::cli {

class ModelFile {
 public:
  explicit ModelFile(const fs::path& path);  // a file that is not there has no fields

  double number(const std::string& key, double fallback) const;
  int64_t integer(const std::string& key, int64_t fallback) const;
  bool flag(const std::string& key, bool fallback) const;
  // One id or a list of them; nothing when the key is not there.
  std::optional<std::vector<text::TokenId>> tokens(const std::string& key) const;

 private:
  const Json* find(const std::string& key) const;
  UserError wrong(const std::string& key, const Json& value, const char* expected) const;

  std::string path_;
  Json fields_;
};

}  // namespace hone::cli
