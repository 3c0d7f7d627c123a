#include "hone/text/tokenizer/added_tokens.h"

#include <algorithm>

#include "hone/text/tokenizer/unicode/unicode.h"
#include "hone/text/tokenizer/unicode/utf8.h"

namespace hone::text::tokenizer {
namespace {

size_t last_char_start(std::string_view text) { return character_begin(text, text.size() - 1); }

uint32_t last_char(std::string_view text) { return code_point_at(text.data() + last_char_start(text)); }
bool ends_in_word(std::string_view text) { return !text.empty() && is_word(last_char(text)); }
bool starts_with_word(std::string_view text) { return !text.empty() && is_word(code_point_at(text.data())); }

size_t without_trailing_space(std::string_view text) {
  while (!text.empty() && is_white_space(last_char(text))) text = text.substr(0, last_char_start(text));
  return text.size();
}

size_t leading_space(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && is_white_space(code_point_at(text.data() + at)))
    at += static_cast<size_t>(utf8_length(static_cast<unsigned char>(text[at])));
  return at;
}

}  // namespace

void AddedTokens::add(AddedToken token, const Vocabulary& vocabulary) {
  if (token.content.empty()) return;
  auto known = find_id(token.content);
  if (!known) known = vocabulary.find(token.content);
  TokenId id = known ? *known : std::max(id_limit_, static_cast<TokenId>(vocabulary.count()));
  id_limit_ = std::max(id_limit_, id + 1);
  ids_[token.content] = id;
  if (token.special) special_.insert(token.content);
  tokens_[id] = std::move(token);
}

void AddedTokens::finish(const Normalizer* normalizer) {
  std::vector<std::pair<std::string_view, TokenId>> raw, normalized;
  for (auto& [id, token] : tokens_) {
    if (!token.normalized) {
      raw.push_back({token.content, id});
      continue;
    }
    std::string content = token.content;
    if (normalizer) normalizer->apply(content);
    if (content != token.content) normalized_content_[id] = content;
    std::string_view pattern = content != token.content ? normalized_content_[id] : token.content;
    if (!pattern.empty()) normalized.push_back({pattern, id});
  }
  raw_ = make_matcher(std::move(raw));
  normalized_ = make_matcher(std::move(normalized));
}

AddedTokens::Matcher AddedTokens::make_matcher(std::vector<std::pair<std::string_view, TokenId>> words) {
  Matcher matcher;
  for (auto& [word, id] : words) matcher.first[static_cast<unsigned char>(word[0])] = true;
  matcher.any = !words.empty();
  matcher.trie = Trie(std::move(words));
  return matcher;
}

size_t AddedTokens::Matcher::next_candidate(std::string_view text, size_t from) const {
  while (from < text.size() && !first[static_cast<unsigned char>(text[from])]) ++from;
  return from;
}

void AddedTokens::find(const Matcher& matcher, std::string_view text, bool guard_special,
                       std::vector<AddedTokenSpan>& out) const {
  size_t done = 0;
  for (size_t at = matcher.any ? 0 : text.size(); (at = matcher.next_candidate(text, at)) < text.size();) {
    size_t length = 0;
    TokenId id = -1;
    matcher.trie.prefixes(text.substr(at), [&](size_t found, TokenId value) { length = found, id = value; });
    if (id < 0) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + length;
    at = end;
    auto& token = tokens_.at(id);
    if (guard_special && special_.contains(token.content)) continue;
    if (token.single_word && (ends_in_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) continue;
    if (token.lstrip) begin = std::max(without_trailing_space(text.substr(0, begin)), done);
    if (token.rstrip) end += leading_space(text.substr(end));
    if (done < begin) out.push_back({done, begin, -1});
    out.push_back({begin, end, id});
    done = end;
    at = std::max(at, end);
  }
  if (done < text.size()) out.push_back({done, text.size(), -1});
}

std::optional<TokenId> AddedTokens::find_id(std::string_view content) const {
  auto found = ids_.find(std::string(content));
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

const AddedToken* AddedTokens::find_token(TokenId id) const {
  auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second;
}

const std::string* AddedTokens::decoded(TokenId id) const {
  auto normalized = normalized_content_.find(id);
  if (normalized != normalized_content_.end()) return &normalized->second;
  auto* token = find_token(id);
  return token ? &token->content : nullptr;
}

}  // namespace hone::text::tokenizer
