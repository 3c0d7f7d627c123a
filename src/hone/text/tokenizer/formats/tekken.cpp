#include "hone/text/tokenizer/formats/tekken.h"

#include "hone/base/strings/base64.h"
#include "hone/text/tokenizer/models/model_json.h"
#include "hone/text/tokenizer/models/vocabulary_merges.h"
#include "hone/text/tokenizer/pre_tokenizers/byte_level.h"
#include "hone/text/tokenizer/unicode/utf8.h"

namespace hone::text::tokenizer {
namespace {

namespace dom = simdjson::dom;

// Defaults of files before version 7.
constexpr const char* kOldSpecialTokens[] = {"<unk>",
                                             "<s>",
                                             "</s>",
                                             "[INST]",
                                             "[/INST]",
                                             "[AVAILABLE_TOOLS]",
                                             "[/AVAILABLE_TOOLS]",
                                             "[TOOL_RESULTS]",
                                             "[/TOOL_RESULTS]",
                                             "[TOOL_CALLS]",
                                             "[IMG]",
                                             "<pad>",
                                             "[IMG_BREAK]",
                                             "[IMG_END]",
                                             "[PREFIX]",
                                             "[MIDDLE]",
                                             "[SUFFIX]",
                                             "[SYSTEM_PROMPT]",
                                             "[/SYSTEM_PROMPT]",
                                             "[TOOL_CONTENT]"};

struct Sizes {
  int64_t total = 0, special = 0;
  std::string pattern;
};

Result<Sizes> read_sizes(dom::element root) {
  Sizes sizes;
  std::string_view pattern;
  if (root["config"]["pattern"].get(pattern)) return error("'config' has no pattern");
  if (root["config"]["default_vocab_size"].get(sizes.total) || root["config"]["default_num_special_tokens"].get(sizes.special))
    return error("'config' lacks default_vocab_size or default_num_special_tokens");
  if (sizes.special < 0 || sizes.total <= sizes.special || sizes.total > Vocabulary::kMaxId)
    return error("'config' has sizes that make no sense: {} tokens, {} of them special", sizes.total, sizes.special);
  sizes.pattern = pattern;
  return sizes;
}

Result<bool> add_special_tokens(dom::element root, int64_t count, Vocabulary& vocabulary, std::vector<AddedToken>& added) {
  std::vector<std::string> names(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) names[static_cast<size_t>(i)] = fmt::format("<SPECIAL_{}>", i);
  dom::array listed;
  if (root["special_tokens"].get(listed)) {
    for (size_t i = 0; i < std::size(kOldSpecialTokens) && i < names.size(); ++i) names[i] = kOldSpecialTokens[i];
  } else {
    for (auto entry : listed) {
      std::string_view name;
      int64_t rank;
      if (entry["token_str"].get(name) || entry["rank"].get(rank) || rank < 0 || rank >= count)
        return error("special_tokens: an entry lacks token_str or rank");
      names[static_cast<size_t>(rank)] = name;
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    auto& name = names[static_cast<size_t>(i)];
    auto result = vocabulary.add(name, i);
    if (!result) return result;
    added.push_back({.content = name, .normalized = false, .special = true});
  }
  return true;
}

Result<bool> add_vocabulary(dom::element root, const Sizes& sizes, Vocabulary& vocabulary) {
  dom::array entries;
  if (root["vocab"].get(entries)) return error("'vocab' is missing or not a list");
  std::string spelled;
  for (auto entry : entries) {
    int64_t rank;
    std::string_view encoded;
    if (entry["rank"].get(rank) || entry["token_bytes"].get(encoded) || rank < 0)
      return error("vocab: an entry lacks rank or token_bytes");
    if (rank >= sizes.total - sizes.special) continue;  // beyond the size that the model uses
    auto bytes = decode_base64(encoded);
    if (!bytes) return error("vocab: token_bytes of rank {}: {}", rank, bytes.error());
    spelled.clear();
    append_byte_level(spelled, *bytes);
    auto added = vocabulary.add(spelled, rank + sizes.special);
    if (!added) return error("vocab: {}", added.error());
  }
  return true;
}

}  // namespace

Result<std::unique_ptr<Pipeline>> read_tekken(std::string_view text) {
  dom::parser parser;
  dom::element root;
  if (auto failure = parser.parse(text.data(), text.size()).get(root))
    return error("not valid JSON: {}", simdjson::error_message(failure));
  auto sizes = read_sizes(root);
  if (!sizes) return Error{sizes.error()};
  Vocabulary vocabulary;
  PipelineStages parts;
  vocabulary.reserve(static_cast<size_t>(sizes->total), static_cast<size_t>(sizes->total) * 8);
  auto special = add_special_tokens(root, sizes->special, vocabulary, parts.added_tokens);
  if (!special) return Error{special.error()};
  auto filled = add_vocabulary(root, *sizes, vocabulary);
  if (!filled) return Error{filled.error()};
  Json splitting = {
      {"type", "Sequence"},
      {"pretokenizers",
       Json::array({{{"type", "Split"}, {"pattern", {{"Regex", sizes->pattern}}}, {"behavior", "Isolated"}, {"invert", false}},
                    {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}})}};
  auto pre_tokenizer = make_pre_tokenizer(splitting);
  if (!pre_tokenizer) return Error{pre_tokenizer.error()};
  auto decoder = make_decoder({{"type", "ByteLevel"}});
  if (!decoder) return Error{decoder.error()};
  auto merges = merges_by_splits(vocabulary, static_cast<TokenId>(sizes->special), MergeRank::per_token);
  parts.model = std::make_unique<Bpe>(std::move(vocabulary), std::move(merges), BpeOptions{.ignore_merges = true});
  parts.pre_tokenizer = std::move(*pre_tokenizer);
  parts.byte_level_splitter = byte_level_splitter(splitting);
  parts.decoder = std::move(*decoder);
  auto pipeline = std::make_unique<Pipeline>(std::move(parts));
  auto& names = pipeline->mutable_special();
  names.bos = pipeline->id_of("<s>");
  names.eos = pipeline->id_of("</s>");
  names.unk = pipeline->id_of("<unk>");
  names.pad = pipeline->id_of("<pad>");
  return pipeline;
}

}  // namespace hone::text::tokenizer
