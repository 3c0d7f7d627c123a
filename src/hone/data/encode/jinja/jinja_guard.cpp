// Keeps text that spells special tokens as text, through any template.
#include <algorithm>

#include "hone/base/strings/replace_all.h"
#include "hone/data/encode/jinja/jinja.h"

namespace hone::data {
namespace {

using text::TokenId;

// While a template runs, text that spells a special token is enclosed in two noncharacters, so that it can be identified
// afterwards.
constexpr std::string_view kGuard = "\uFDD0", kGuardEnd = "\uFDD1", kReplacement = "\uFFFD";

}  // namespace

// Our own markers in any text, including an assistant's, would reverse the guarding.
void JinjaEncoder::take_out_marks(Json& value) {
  if (value.is_object()) {
    Json clean = Json::object();
    for (auto& [key, part] : value.items()) {
      Json name = key;
      take_out_marks(name);
      take_out_marks(part);
      clean[name.get<std::string>()] = std::move(part);
    }
    value = std::move(clean);
  } else if (value.is_array()) {
    for (auto& part : value) take_out_marks(part);
  }
  if (!value.is_string()) return;
  auto& text = value.get_ref<std::string&>();
  for (auto mark : {kGuard, kGuardEnd}) text = replace_all(std::move(text), mark, kReplacement);
}

void JinjaEncoder::guard_strings(Json& value, bool whole) const {
  if (value.is_object()) {
    Json guarded = Json::object();
    for (auto& [key, part] : value.items()) {
      Json name = key;
      guard_strings(name, whole);
      guard_strings(part, whole);
      guarded[name.get<std::string>()] = std::move(part);
    }
    value = std::move(guarded);
  } else if (value.is_array()) {
    for (auto& part : value) guard_strings(part, whole);
  }
  if (!value.is_string() || !spells_special_token(value.get_ref<const std::string&>())) return;
  auto& text = value.get_ref<std::string&>();
  auto marked = whole ? text : with_marked_tokens(text);
  bool all_marked =
      !whole && !std::ranges::any_of(guarded_tokens(marked), [&](TokenId id) { return tokenizer_->is_special(id); });
  text = all_marked ? marked : std::string(kGuard) + text + std::string(kGuardEnd);
}

// Guards each spelled token separately: templates split responses at the end of a think block, which could separate a pair.
std::string JinjaEncoder::with_marked_tokens(const std::string& text) const {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t length = 0;
    for (const auto& token : special_texts_)
      if (token.size() > length && text.compare(at, token.size(), token) == 0) length = token.size();
    if (length > 0)
      out.append(kGuard).append(text, at, length).append(kGuardEnd);
    else
      out += text[at];
    at += std::max<size_t>(length, 1);
  }
  return out;
}

// Everything a client sends: assistant messages in a request are client text too.
void JinjaEncoder::guard(Prepared& prepared) const {
  if (!config_.guard_special_tokens) return;
  take_out_marks(prepared.messages);
  take_out_marks(prepared.tools);
  guard_strings(prepared.tools, true);
  for (auto& message : prepared.messages)
    for (auto& [key, value] : message.items())
      if (key != "role") guard_strings(value, message["role"] != "assistant");
}

// A template may truncate a text and lose one marker of a pair: the rest of the pair is removed.
std::vector<TokenId> JinjaEncoder::guarded_tokens(const std::string& rendered) const {
  if (!config_.guard_special_tokens) return tokens(rendered);
  std::vector<TokenId> ids;
  bool inside = false;
  for (size_t at = 0; at <= rendered.size();) {
    auto end = std::min(rendered.find(inside ? kGuardEnd : kGuard, at), rendered.size());
    auto part = rendered.substr(at, end - at);
    part = replace_all(std::move(part), inside ? kGuard : kGuardEnd, "");
    auto more = tokens(part, inside);
    ids.insert(ids.end(), more.begin(), more.end());
    at = end + kGuard.size();
    inside = !inside;
  }
  return ids;
}

}  // namespace hone::data
