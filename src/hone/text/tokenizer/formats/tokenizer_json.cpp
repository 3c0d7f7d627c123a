#include "hone/text/tokenizer/formats/tokenizer_json.h"

#include "hone/text/tokenizer/component.h"
#include "hone/text/tokenizer/models/model_json.h"

namespace hone::text::tokenizer {
namespace {

namespace dom = simdjson::dom;

// A top-level member by name; JSON null if absent.
Result<Json> part_of(dom::element root, const char* key) {
  dom::element value;
  if (root[key].get(value)) return Json();
  auto json = small_json(value);
  if (!json) return error("{}: {}", key, json.error());
  return json;
}

Result<std::vector<AddedToken>> read_added_tokens(const Json& json) {
  std::vector<AddedToken> tokens;
  if (json.is_null()) return tokens;
  if (!json.is_array()) return error("added_tokens is {}; expected a list", json.type_name());
  for (auto& entry : json) {
    Fields fields(entry, "added_tokens");
    AddedToken token;
    fields.number("id", 0, 0, Vocabulary::kMaxId);
    token.content = fields.text("content");
    token.special = fields.flag("special", false);
    token.single_word = fields.flag("single_word", false);
    token.lstrip = fields.flag("lstrip", false);
    token.rstrip = fields.flag("rstrip", false);
    token.normalized = fields.flag("normalized", !token.special);
    if (!fields.error().empty()) return Error{fields.error()};
    tokens.push_back(std::move(token));
  }
  return tokens;
}

Result<PipelineStages> read_parts(dom::element root) {
  PipelineStages parts;
  auto normalizer_json = part_of(root, "normalizer"), splitting = part_of(root, "pre_tokenizer"),
       finishing = part_of(root, "post_processor"), decoding = part_of(root, "decoder"), added = part_of(root, "added_tokens");
  for (auto* part : {&normalizer_json, &splitting, &finishing, &decoding, &added})
    if (!*part) return Error{part->error()};
  auto normalizer = make_normalizer(*normalizer_json);
  if (!normalizer) return Error{normalizer.error()};
  auto pre_tokenizer = make_pre_tokenizer(*splitting);
  if (!pre_tokenizer) return Error{pre_tokenizer.error()};
  auto post_processor = PostProcessor::make(*finishing);
  if (!post_processor) return Error{post_processor.error()};
  auto decoder = make_decoder(*decoding);
  if (!decoder) return Error{decoder.error()};
  auto tokens = read_added_tokens(*added);
  if (!tokens) return Error{tokens.error()};
  parts.normalizer = std::move(*normalizer);
  parts.pre_tokenizer = std::move(*pre_tokenizer);
  parts.byte_level_splitter = byte_level_splitter(*splitting);
  parts.post_processor = std::move(*post_processor);
  parts.decoder = std::move(*decoder);
  parts.added_tokens = std::move(*tokens);
  return parts;
}

}  // namespace

Result<std::unique_ptr<Pipeline>> read_tokenizer_json(std::string_view text) {
  dom::parser parser;
  dom::element root, model_json;
  if (auto failure = parser.parse(text.data(), text.size()).get(root))
    return error("not valid JSON: {}", simdjson::error_message(failure));
  if (!root.is_object()) return error("the file holds no JSON object");
  if (root["model"].get(model_json)) return error("'model' is missing");
  auto parts = read_parts(root);
  if (!parts) return Error{parts.error()};
  auto model = read_model(model_json);
  if (!model) return Error{model.error()};
  parts->model = std::move(*model);
  return std::make_unique<Pipeline>(std::move(*parts));
}

}  // namespace hone::text::tokenizer
