#include "hone/serve/chat/length.h"

#include <algorithm>

#include "hone/base/strings/utf8.h"
#include "hone/serve/http/api_error.h"
#include "hone/serve/schema/fields.h"

namespace hone::serve {
namespace {

constexpr size_t kPartBytes = 64u << 10;
// A token may have been split between two parts: this many tokens of each part are not counted.
constexpr size_t kSeamTokens = 16;

// After white space near the end, or else between two characters.
size_t part_end(std::string_view text, size_t begin) {
  const size_t end = begin + kPartBytes;
  if (end >= text.size()) return text.size();
  auto blank = text.find_last_of(" \n", end - 1);
  if (blank != text.npos && blank + 1024 > end) return blank;
  return std::max(begin + 1, begin + character_begin(text.substr(begin), kPartBytes));
}

// For consecutive parts, a lower bound of the total.
class TokenCount {
 public:
  TokenCount(const ServedModel& served, bool guarded) : served_(served), guarded_(guarded) {}

  // False: already too many.
  bool add(std::string_view text) {
    for (size_t begin = 0; begin < text.size();) {
      auto end = part_end(text, begin);
      ids_.clear();
      served_.tokenizer->encode_to(text.substr(begin, end - begin), {.guard_special_tokens = guarded_}, ids_);
      tokens_ += ids_.size() > kSeamTokens ? ids_.size() - kSeamTokens : 0;
      if (tokens_ > static_cast<size_t>(served_.max_model_len)) return false;
      begin = end;
    }
    return true;
  }

 private:
  const ServedModel& served_;
  const bool guarded_;
  std::vector<text::TokenId> ids_;
  size_t tokens_ = 0;
};

bool worth_counting(size_t bytes, const ServedModel& served) {
  return bytes > kPartBytes && bytes > static_cast<size_t>(served.max_model_len);
}

void check_bytes(const char* what, size_t bytes, const std::string& where) {
  if (bytes > kMostTokenizedBytes)
    throw ApiError(400, fmt::format("{} {} bytes; at most {} are taken", what, bytes, kMostTokenizedBytes), where, "too_long");
}

size_t bytes_of(const data::Conversation& conversation) {
  size_t bytes = 0;
  for (const auto& message : conversation.messages) bytes += message.content.size();
  return bytes;
}

}  // namespace

void context_exceeded(const ServedModel& served, const std::string& found, const std::string& where) {
  throw ApiError(400,
                 fmt::format("this model's maximum context length is {} tokens; the prompt has {}", served.max_model_len, found),
                 where, "context_length_exceeded");
}

void refuse_overlong(std::string_view text, const ServedModel& served, bool guarded, const std::string& where) {
  if (worth_counting(text.size(), served) && !TokenCount(served, guarded).add(text)) context_exceeded(served, "more", where);
}

void refuse_overlong(const data::Conversation& conversation, const ServedModel& served, const std::string& where) {
  if (!worth_counting(bytes_of(conversation), served)) return;
  TokenCount count(served, served.encoder->config().guard_special_tokens);
  for (const auto& message : conversation.messages)
    if (!count.add(message.content)) context_exceeded(served, "more", where);
}

void reject_long_text(const data::Conversation& conversation) {
  check_bytes("the messages have", bytes_of(conversation), "messages");
}

void reject_long_extras(const data::Conversation& conversation, const Json& tools) {
  size_t calls = 0;
  for (const auto& message : conversation.messages)
    if (!message.extra.is_null()) calls += dump(message.extra).size();
  check_bytes("tool calls and reasoning in the messages have", calls, "messages");
  check_bytes("the tools have", dump(tools).size(), "tools");
}

void reject_long_response_format(const Json& shape, const std::string& where) {
  check_bytes("the requested output format has", dump(shape).size(), where);
}

}  // namespace hone::serve
