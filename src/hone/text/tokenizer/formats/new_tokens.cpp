#include "hone/text/new_tokens.h"
#include "hone/base/error.h"

#include "hone/base/file.h"
#include "hone/base/json.h"

namespace hone::text {
namespace {

Json token_entry(const std::string& content, bool special) {
  return {{"content", content}, {"single_word", false},   {"lstrip", false},
          {"rstrip", false},    {"normalized", !special}, {"special", special}};
}

// As an entry of tokenizer.json's list, which contains a token at most once.
void list_token(Json& added, int64_t id, const std::string& content, bool special) {
  auto same = [&](const Json& entry) { return entry.is_object() && entry.value("content", Json()) == content; };
  auto entry = token_entry(content, special);
  entry["id"] = id;
  auto found = std::ranges::find_if(added, same);
  if (found == added.end())
    added.push_back(std::move(entry));
  else
    *found = std::move(entry);
}

void name_special(Json& config, const std::string& content) {
  auto& names = config["additional_special_tokens"];
  if (!names.is_array()) names = Json::array();
  if (std::ranges::find(names, Json(content)) == names.end()) names.push_back(content);
}

Json read_object(const fs::path& path) {
  if (!fs::exists(path)) return Json::object();
  auto json = parse_json(read_file(path)).or_throw(ExitCode::bad_data, path.string());
  return json.is_object() ? json : Json::object();
}

}  // namespace

void write_extended_files(const fs::path& from, const fs::path& to, const NewTokens& tokens, const Tokenizer& tokenizer) {
  if (!fs::exists(from / "tokenizer.json"))
    throw UserError(ExitCode::usage, from.string() + ": has no tokenizer.json to add tokens to",
                    "save the tokenizer with transformers first");
  auto vocabulary = read_object(from / "tokenizer.json"), config = read_object(from / "tokenizer_config.json");
  if (!vocabulary["added_tokens"].is_array()) vocabulary["added_tokens"] = Json::array();
  bool decoder = config.contains("added_tokens_decoder") && config["added_tokens_decoder"].is_object();
  for (bool special : {false, true})
    for (const auto& content : special ? tokens.special : tokens.plain) {
      auto id = tokenizer.id_of(content);
      HONE_CHECK(id.has_value(), "a token that was added has an id");
      list_token(vocabulary["added_tokens"], *id, content, special);
      if (decoder) config["added_tokens_decoder"][std::to_string(*id)] = token_entry(content, special);
      if (special) name_special(config, content);
    }
  write_file_atomically(to / "tokenizer.json", vocabulary.dump(-1, ' ', false));
  write_file_atomically(to / "tokenizer_config.json", config.dump(2) + "\n");
}

}  // namespace hone::text
