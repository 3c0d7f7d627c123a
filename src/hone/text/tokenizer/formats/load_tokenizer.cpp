#include <fmt/format.h>

#include "hone/base/file.h"
#include "hone/base/git_lfs.h"
#include "hone/base/json.h"
#include "hone/text/new_tokens.h"
#include "hone/text/tokenizer/formats/sentencepiece_model.h"
#include "hone/text/tokenizer/formats/tekken.h"
#include "hone/text/tokenizer/formats/tokenizer_json.h"

namespace hone::text {
namespace tokenizer {
namespace {

Json read_optional_json(const fs::path& path) {
  if (!fs::exists(path)) return Json::object();
  auto json = parse_json(read_file(path)).or_throw(ExitCode::bad_data, path.string());
  if (!json.is_object()) throw UserError(ExitCode::bad_data, path.string() + ": holds no JSON object");
  return json;
}

// A token is written as a string, or as an object with the string in "content".
std::string token_text(const Json& holder, const char* key) {
  if (!holder.contains(key)) return {};
  auto& value = holder[key];
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value["content"].is_string()) return value["content"].get<std::string>();
  return {};
}

bool flag_or(const Json& holder, const char* key, bool fallback) {
  return holder.contains(key) && holder[key].is_boolean() ? holder[key].get<bool>() : fallback;
}

AddedToken added_token(const Json& entry, std::string content) {
  bool special = flag_or(entry, "special", false);
  return {.content = std::move(content),
          .single_word = flag_or(entry, "single_word", false),
          .lstrip = flag_or(entry, "lstrip", false),
          .rstrip = flag_or(entry, "rstrip", false),
          .normalized = flag_or(entry, "normalized", !special),
          .special = special};
}

// Tokens that only tokenizer_config.json or added_tokens.json define, in the order of their ids.
void add_config_tokens(Pipeline& pipeline, const Json& config, const Json& added_tokens) {
  std::map<int64_t, AddedToken> tokens;
  for (auto& [content, id] : added_tokens.items())
    if (id.is_number_integer()) tokens[id.get<int64_t>()] = {.content = content, .normalized = false};
  if (config.contains("added_tokens_decoder") && config["added_tokens_decoder"].is_object())
    for (auto& [id, entry] : config["added_tokens_decoder"].items()) {
      auto content = token_text(config["added_tokens_decoder"], id.c_str());
      if (!content.empty()) tokens[std::atoll(id.c_str())] = added_token(entry, content);
    }
  for (auto& [id, token] : tokens)
    if (!pipeline.has_added_token(token.content)) pipeline.add_token(std::move(token));
}

void name_special_tokens(Pipeline& pipeline, const Json& config, const Json& map) {
  auto& special = pipeline.mutable_special();
  std::pair<const char*, std::optional<TokenId>*> names[] = {
      {"bos_token", &special.bos}, {"eos_token", &special.eos}, {"pad_token", &special.pad}, {"unk_token", &special.unk}};
  for (auto& [name, target] : names) {
    auto text = token_text(config, name);
    if (text.empty()) text = token_text(map, name);
    if (!text.empty()) *target = pipeline.id_of(text);
  }
}

std::string find_chat_template(const fs::path& folder, const Json& config) {
  if (fs::exists(folder / "chat_template.jinja")) return read_file(folder / "chat_template.jinja");
  Json holder = config.contains("chat_template") ? config : read_optional_json(folder / "chat_template.json");
  if (!holder.contains("chat_template")) return {};
  auto& value = holder["chat_template"];
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return {};
  for (auto& named : value)
    if (named.is_object() && named.value("name", Json()) == "default" && named.contains("template") &&
        named["template"].is_string())
      return named["template"].get<std::string>();
  return {};
}

int64_t max_length(const Json& config) {
  constexpr double kUnset = 1e15;  // transformers writes 1e30 for "no limit"
  if (!config.contains("model_max_length") || !config["model_max_length"].is_number()) return 0;
  double length = config["model_max_length"].get<double>();
  return length > 0 && length < kUnset ? static_cast<int64_t>(length) : 0;
}

std::unique_ptr<Pipeline> read_vocabulary_file(const fs::path& folder, bool legacy) {
  auto read = [&](const char* name, auto reader) {
    MappedFile file(folder / name);
    if (is_git_lfs_pointer(file.text()))
      throw UserError(ExitCode::bad_data, fmt::format("{}: {}", (folder / name).string(), kGitLfsPointer));
    return reader(file.text()).or_throw(ExitCode::bad_data, (folder / name).string(), "the file may be damaged: fetch it again");
  };
  if (fs::exists(folder / "tokenizer.json")) return read("tokenizer.json", read_tokenizer_json);
  if (fs::exists(folder / "tokenizer.model"))
    return read("tokenizer.model", [legacy](std::string_view bytes) { return read_sentencepiece(bytes, legacy); });
  if (fs::exists(folder / "tekken.json")) return read("tekken.json", read_tekken);
  throw UserError(ExitCode::bad_data, folder.string() + ": has no tokenizer.json, tokenizer.model or tekken.json",
                  "give a model folder as downloaded from a hub");
}

// Whether BOS and EOS are added to a text, by the configuration or by the vocabulary file.
void set_bos_eos_rules(Pipeline& pipeline, const Json& config, bool own_file) {
  auto& special = pipeline.mutable_special();
  if (own_file) {
    special.add_bos = flag_or(config, "add_bos_token", false);
    special.add_eos = flag_or(config, "add_eos_token", false);
    std::vector<TokenId> before, after;
    if (special.add_bos && special.bos) before.push_back(*special.bos);
    if (special.add_eos && special.eos) after.push_back(*special.eos);
    pipeline.set_post_processor(PostProcessor::surrounding(before, after));
    return;
  }
  auto around = pipeline.encode("", {.add_special_tokens = true});
  special.add_bos = flag_or(config, "add_bos_token", special.bos && !around.empty() && around.front() == *special.bos);
  special.add_eos = flag_or(config, "add_eos_token", special.eos && !around.empty() && around.back() == *special.eos);
}

}  // namespace
}  // namespace tokenizer

std::shared_ptr<const Tokenizer> Tokenizer::load(const std::filesystem::path& folder) { return load_tokenizer(folder, {}); }

std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& folder, const NewTokens& tokens) {
  using namespace tokenizer;
  if (!fs::is_directory(folder))
    throw UserError(ExitCode::bad_data, folder.string() + ": is not a folder", "give a model folder");
  auto config = read_optional_json(folder / "tokenizer_config.json");
  auto pipeline = read_vocabulary_file(folder, flag_or(config, "legacy", false));
  add_config_tokens(*pipeline, config, read_optional_json(folder / "added_tokens.json"));
  for (const auto& content : tokens.plain) pipeline->add_token({.content = content});
  for (const auto& content : tokens.special) pipeline->add_token({.content = content, .normalized = false, .special = true});
  name_special_tokens(*pipeline, config, read_optional_json(folder / "special_tokens_map.json"));
  pipeline->finish();
  set_bos_eos_rules(*pipeline, config, !fs::exists(folder / "tokenizer.json"));
  pipeline->set_chat_template(find_chat_template(folder, config));
  pipeline->set_model_max_length(max_length(config));
  return std::shared_ptr<const Tokenizer>(std::move(pipeline));
}

Result<std::shared_ptr<const Tokenizer>> tokenizer_from_json(std::string_view json) {
  auto pipeline = tokenizer::read_tokenizer_json(json);
  if (!pipeline) return Error{pipeline.error()};
  (*pipeline)->finish();
  return std::shared_ptr<const Tokenizer>(std::move(*pipeline));
}

}  // namespace hone::text
