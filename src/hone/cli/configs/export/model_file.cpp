#include "hone/cli/configs/export/model_file.h"

#include <algorithm>

#include "hone/base/model_file.h"

namespace hone::cli {

ModelFile::ModelFile(const fs::path& path)
    : path_(path.string()), fields_(fs::is_regular_file(path) ? read_model_file(path) : Json::object()) {}

double ModelFile::number(const std::string& key, double fallback) const {
  const auto* value = find(key);
  if (value && !value->is_number()) throw wrong(key, *value, "a number");
  return value ? value->get<double>() : fallback;
}

int64_t ModelFile::integer(const std::string& key, int64_t fallback) const {
  const auto* value = find(key);
  if (value && !value->is_number_integer()) throw wrong(key, *value, "an integer");
  return value ? value->get<int64_t>() : fallback;
}

bool ModelFile::flag(const std::string& key, bool fallback) const {
  const auto* value = find(key);
  if (value && !value->is_boolean()) throw wrong(key, *value, "true or false");
  return value ? value->get<bool>() : fallback;
}

std::optional<std::vector<text::TokenId>> ModelFile::tokens(const std::string& key) const {
  const auto* value = find(key);
  if (!value) return std::nullopt;
  auto list = value->is_array() ? *value : Json::array({*value});
  if (!std::all_of(list.begin(), list.end(), [](const Json& id) { return id.is_number_integer(); }))
    throw wrong(key, *value, "a token id or a list of them");
  return list.get<std::vector<text::TokenId>>();
}

const Json* ModelFile::find(const std::string& key) const {
  auto found = fields_.find(key);
  return found == fields_.end() || found->is_null() ? nullptr : &*found;
}

UserError ModelFile::wrong(const std::string& key, const Json& value, const char* expected) const {
  return UserError(ExitCode::bad_checkpoint, fmt::format("{}: {} is {}; expected {}", path_, key, value.dump(), expected));
}

}  // namespace hone::cli
