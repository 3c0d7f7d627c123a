#include "hone/text/tokenizer/models/model_json.h"

#include "hone/text/tokenizer/models/bpe.h"

namespace hone::text::tokenizer {
namespace {

namespace dom = simdjson::dom;

Result<Vocabulary> read_vocabulary(dom::element model) {
  dom::object entries;
  if (model["vocab"].get(entries)) return error("model: 'vocab' is missing or not an object");
  Vocabulary vocabulary;
  vocabulary.reserve(entries.size(), entries.size() * 8);
  for (auto [token, value] : entries) {
    int64_t id;
    if (value.get(id)) return error("model: the id of token '{}' is not an integer that fits", token);
    auto added = vocabulary.add(token, id);
    if (!added) return error("model: {}", added.error());
  }
  return vocabulary;
}

// The two halves of a merge, written "a b" or ["a", "b"].
bool read_pair(dom::element entry, std::string_view& left, std::string_view& right) {
  dom::array pair;
  if (!entry.get(pair)) return pair.size() == 2 && !pair.at(0).get(left) && !pair.at(1).get(right);
  std::string_view line;
  if (entry.get(line)) return false;
  size_t space = line.find(' ');
  if (space == line.npos || line.find(' ', space + 1) != line.npos) return false;
  left = line.substr(0, space);
  right = line.substr(space + 1);
  return true;
}

Result<MergeTable> read_merges(dom::element model, const Vocabulary& vocabulary, size_t prefix_length) {
  dom::array entries;
  if (model["merges"].get(entries)) return error("model: 'merges' is missing or not a list");
  MergeTable merges;
  merges.reserve(entries.size());
  std::string joined;
  uint32_t rank = 0;
  TokenId expected = -1;  // trained vocabularies number tokens in merge order, which avoids most lookups
  for (auto entry : entries) {
    std::string_view line, left, right;
    if (!entry.get(line) && line.starts_with("#version")) continue;
    if (!read_pair(entry, left, right)) return error("model: merge {} is not a pair of tokens", rank);
    auto left_id = vocabulary.find(left), right_id = vocabulary.find(right);
    if (!left_id || !right_id)
      return error("model: merge {} names '{}', which is not in the vocabulary", rank, left_id ? right : left);
    if (right.size() < prefix_length) return error("model: merge {}: '{}' lacks the continuing_subword_prefix", rank, right);
    joined.assign(left).append(right.substr(prefix_length));
    bool guessed = expected >= 0 && vocabulary.token(expected) == joined;
    auto result = guessed ? std::optional<TokenId>(expected) : vocabulary.find(joined);
    if (!result) return error("model: merge {} makes '{}', which is not in the vocabulary", rank, joined);
    merges.add(*left_id, *right_id, {rank++, *result});
    expected = *result + 1;
  }
  return merges;
}

// Optional fields: absent and null are the same.
Result<std::optional<std::string>> optional_text(dom::element model, const char* key) {
  dom::element value;
  if (model[key].get(value) || value.is_null()) return std::optional<std::string>();
  std::string_view text;
  if (value.get(text)) return error("model: '{}' is not a string", key);
  return std::optional<std::string>(text);
}

Result<bool> optional_flag(dom::element model, const char* key) {
  dom::element value;
  bool flag = false;
  if (model[key].get(value) || value.is_null()) return false;
  if (value.get(flag)) return error("model: '{}' is neither true nor false", key);
  return flag;
}

Result<BpeOptions> read_bpe_options(dom::element model) {
  BpeOptions options;
  std::pair<const char*, std::optional<std::string>*> texts[] = {
      {"unk_token", &options.unk_token},
      {"continuing_subword_prefix", &options.continuing_subword_prefix},
      {"end_of_word_suffix", &options.end_of_word_suffix}};
  for (auto& [key, target] : texts) {
    auto value = optional_text(model, key);
    if (!value) return Error{value.error()};
    *target = *value;
  }
  // An empty prefix or suffix has no effect; without it, faster paths apply.
  if (options.continuing_subword_prefix == "") options.continuing_subword_prefix.reset();
  if (options.end_of_word_suffix == "") options.end_of_word_suffix.reset();
  std::pair<const char*, bool*> flags[] = {
      {"fuse_unk", &options.fuse_unk}, {"byte_fallback", &options.byte_fallback}, {"ignore_merges", &options.ignore_merges}};
  for (auto& [key, target] : flags) {
    auto value = optional_flag(model, key);
    if (!value) return Error{value.error()};
    *target = *value;
  }
  return options;
}

Result<std::unique_ptr<Model>> read_bpe(dom::element model) {
  auto options = read_bpe_options(model);
  if (!options) return Error{options.error()};
  auto vocabulary = read_vocabulary(model);
  if (!vocabulary) return Error{vocabulary.error()};
  auto merges = read_merges(model, *vocabulary, options->continuing_subword_prefix.value_or("").size());
  if (!merges) return Error{merges.error()};
  return std::unique_ptr<Model>(std::make_unique<Bpe>(std::move(*vocabulary), std::move(*merges), std::move(*options)));
}

Result<std::unique_ptr<Model>> read_word_model(dom::element model, bool word_level) {
  auto vocabulary = read_vocabulary(model);
  if (!vocabulary) return Error{vocabulary.error()};
  auto unk = optional_text(model, "unk_token"), prefix = optional_text(model, "continuing_subword_prefix");
  if (!unk) return Error{unk.error()};
  if (!prefix) return Error{prefix.error()};
  if (word_level) return make_word_level(std::move(*vocabulary), unk->value_or("<unk>"));
  WordPieceOptions options;
  if (*unk) options.unk_token = **unk;
  if (*prefix) options.continuing_subword_prefix = **prefix;
  uint64_t longest;
  if (!model["max_input_chars_per_word"].get(longest)) options.max_input_chars_per_word = longest;
  return make_word_piece(std::move(*vocabulary), std::move(options));
}

Result<std::unique_ptr<Model>> read_unigram(dom::element model) {
  dom::array entries;
  if (model["vocab"].get(entries)) return error("model: 'vocab' is missing or not a list");
  Vocabulary vocabulary;
  std::vector<double> scores;
  vocabulary.reserve(entries.size(), entries.size() * 8);
  for (auto entry : entries) {
    dom::array pair;
    std::string_view token;
    double score;
    if (entry.get(pair) || pair.size() != 2 || pair.at(0).get(token) || pair.at(1).get(score))
      return error("model: entry {} of 'vocab' is not a token and its score", scores.size());
    auto added = vocabulary.add(token, static_cast<int64_t>(scores.size()));
    if (!added) return error("model: {}", added.error());
    scores.push_back(score);
  }
  auto fallback = optional_flag(model, "byte_fallback");
  if (!fallback) return Error{fallback.error()};
  UnigramOptions options{.byte_fallback = *fallback};
  dom::element unk;
  if (!model["unk_id"].get(unk) && !unk.is_null()) {
    int64_t id;
    if (unk.get(id) || id < 0 || static_cast<size_t>(id) >= scores.size())
      return error("model: 'unk_id' is not an id of the vocabulary");
    options.unk_id = static_cast<TokenId>(id);
  }
  return make_unigram(std::move(vocabulary), std::move(scores), options);
}

}  // namespace

Result<std::unique_ptr<Model>> read_model(dom::element json) {
  dom::object object;
  if (json.get(object)) return error("'model' is not an object");
  auto type = optional_text(json, "type");
  if (!type) return Error{type.error()};
  dom::element ignored;
  dom::array list;
  // Old files do not name their type; their fields identify it.
  std::string kind = type->value_or(!json["merges"].get(ignored)                     ? "BPE"
                                    : !json["vocab"].get(list)                       ? "Unigram"
                                    : !json["max_input_chars_per_word"].get(ignored) ? "WordPiece"
                                                                                     : "WordLevel");
  if (kind == "BPE") return read_bpe(json);
  if (kind == "Unigram") return read_unigram(json);
  if (kind == "WordPiece" || kind == "WordLevel") return read_word_model(json, kind == "WordLevel");
  return error("model: unknown type '{}'", kind);
}

Result<Json> small_json(dom::element element, int depth) {
  constexpr int kMaxDepth = 64;
  if (depth > kMaxDepth) return error("nested deeper than {} levels", kMaxDepth);
  switch (element.type()) {
    case dom::element_type::OBJECT: {
      Json out = Json::object();
      for (auto [key, value] : dom::object(element)) {
        auto child = small_json(value, depth + 1);
        if (!child) return child;
        out[std::string(key)] = std::move(*child);
      }
      return out;
    }
    case dom::element_type::ARRAY: {
      Json out = Json::array();
      for (auto value : dom::array(element)) {
        auto child = small_json(value, depth + 1);
        if (!child) return child;
        out.push_back(std::move(*child));
      }
      return out;
    }
    case dom::element_type::STRING:
      return Json(std::string(std::string_view(element)));
    case dom::element_type::INT64:
      return Json(int64_t(element));
    case dom::element_type::UINT64:
      return Json(uint64_t(element));
    case dom::element_type::DOUBLE:
      return Json(double(element));
    case dom::element_type::BOOL:
      return Json(bool(element));
    default:
      return Json();
  }
}

}  // namespace hone::text::tokenizer
