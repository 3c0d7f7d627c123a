#include "hone/text/tokenizer/post_processor.h"

#include "hone/text/tokenizer/component.h"

namespace hone::text::tokenizer {
namespace {

Result<TokenId> id_of(const Json& json) {
  if (json.is_number_integer() && json.get<int64_t>() >= 0 && json.get<int64_t>() <= INT32_MAX) return json.get<TokenId>();
  return error("post_processor: id {} is not a token id", json.dump().substr(0, 40));
}

// ["[SEP]", 102]
Result<TokenId> id_of_pair(Fields& fields, const char* key) {
  auto& pair = fields.list(key);
  if (!fields.error().empty()) return Error{fields.error()};
  if (pair.size() != 2) return error("post_processor: '{}' is not a token and its id", key);
  return id_of(pair[1]);
}

Template surround(std::vector<TokenId> before, std::vector<TokenId> after) {
  return {{false, std::move(before)}, {true, {}}, {false, std::move(after)}};
}

Result<Template> bert_template(Fields& fields) {
  auto first = id_of_pair(fields, "cls"), last = id_of_pair(fields, "sep");
  if (!first) return Error{first.error()};
  if (!last) return Error{last.error()};
  return surround({*first}, {*last});
}

Result<TemplatePart> special_part(const Json& specials, const std::string& name) {
  if (!specials.is_object() || !specials.contains(name))
    return error("TemplateProcessing: '{}' is not among its special_tokens", name);
  auto& entry = specials[name];
  if (!entry.is_object() || !entry.contains("ids") || !entry["ids"].is_array())
    return error("TemplateProcessing: '{}' has no ids", name);
  TemplatePart part;
  for (auto& json : entry["ids"]) {
    auto id = id_of(json);
    if (!id) return Error{id.error()};
    part.ids.push_back(*id);
  }
  return part;
}

Result<Template> template_of(Fields& fields, const Json& json) {
  static const Json none;
  auto& specials = json.contains("special_tokens") ? json["special_tokens"] : none;
  Template out;
  for (auto& piece : fields.list("single")) {
    if (piece.is_object() && piece.contains("Sequence")) {
      out.push_back({true, {}});
    } else if (piece.is_object() && piece.contains("SpecialToken") && piece["SpecialToken"].is_object()) {
      Fields special(piece["SpecialToken"], "TemplateProcessing");
      auto part = special_part(specials, special.text("id"));
      if (!special.error().empty()) return Error{special.error()};
      if (!part) return Error{part.error()};
      out.push_back(std::move(*part));
    } else {
      return error("TemplateProcessing: a piece is neither Sequence nor SpecialToken");
    }
  }
  if (!fields.error().empty()) return Error{fields.error()};
  return out;
}

}  // namespace

Result<PostProcessor> PostProcessor::make(const Json& json) {
  PostProcessor out;
  if (json.is_null()) return out;
  if (!json.is_object()) return error("post_processor is {}; expected an object", json.type_name());
  Fields fields(json, "post_processor");
  auto type = fields.type();
  if (type == "ByteLevel") return out;
  if (type == "Sequence") {
    for (auto& child : fields.list("processors")) {
      auto part = make(child);
      if (!part) return part;
      for (auto& single : part->templates_) out.templates_.push_back(std::move(single));
    }
    if (!fields.error().empty()) return Error{fields.error()};
    return out;
  }
  if (type != "BertProcessing" && type != "RobertaProcessing" && type != "TemplateProcessing")
    return error("post_processor: unknown type '{}'", type);
  auto single = type == "TemplateProcessing" ? template_of(fields, json) : bert_template(fields);
  if (!single) return Error{single.error()};
  out.templates_.push_back(std::move(*single));
  return out;
}

PostProcessor PostProcessor::surrounding(std::vector<TokenId> before, std::vector<TokenId> after) {
  PostProcessor out;
  if (!before.empty() || !after.empty()) out.templates_.push_back(surround(std::move(before), std::move(after)));
  return out;
}

void PostProcessor::apply(std::vector<TokenId>& ids, size_t start, bool add_special_tokens) const {
  if (!add_special_tokens) return;
  for (auto& parts : templates_) {
    std::vector<TokenId> own(ids.begin() + static_cast<ptrdiff_t>(start), ids.end());
    ids.resize(start);
    for (auto& part : parts) {
      auto& source = part.text ? own : part.ids;
      ids.insert(ids.end(), source.begin(), source.end());
    }
  }
}

}  // namespace hone::text::tokenizer
