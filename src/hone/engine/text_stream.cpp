#include "hone/engine/text_stream.h"

#include <algorithm>

namespace hone::engine {

TextStream::TextStream(const text::Tokenizer& tokenizer, std::vector<std::string> stop, bool include_stop,
                       bool skip_special_tokens)
    : decoder_(tokenizer, skip_special_tokens), stop_(std::move(stop)), include_stop_(include_stop) {
  std::erase(stop_, "");
  for (const auto& text : stop_) longest_stop_ = std::max(longest_stop_, text.size());
}

std::string TextStream::push(text::TokenId token, bool may_stop) {
  if (stopped()) return {};
  auto piece = decoder_.push(token);
  if (stop_.empty()) return piece;
  held_ += piece;
  return release(may_stop);
}

std::string TextStream::finish() {
  if (stopped()) return {};
  held_ += decoder_.finish();
  auto text = release(true);
  return stopped() ? text : text + std::exchange(held_, {});
}

// Everything except a suffix that may start a stop string.
std::string TextStream::release(bool may_stop) {
  size_t cut = std::string::npos;
  if (may_stop)
    for (const auto& stop : stop_) {
      auto found = held_.find(stop);
      if (found < cut) cut = found, stop_string_ = stop;
    }
  if (cut != std::string::npos) return held_.substr(0, cut + (include_stop_ ? stop_string_.size() : 0));
  size_t keep = std::min(held_.size(), longest_stop_ - 1);
  auto begins_a_stop = [&](size_t size) {
    std::string_view end(held_.data() + held_.size() - size, size);
    return std::ranges::any_of(stop_, [&](const std::string& stop) { return std::string_view(stop).starts_with(end); });
  };
  while (keep > 0 && !begins_a_stop(keep)) --keep;
  auto text = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return text;
}

}  // namespace hone::engine
