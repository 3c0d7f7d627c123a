#include "hone/engine/prompt_lookup.h"

#include <algorithm>

namespace hone::engine {
namespace {

constexpr size_t kLongest = 4, kShortest = 2;
constexpr size_t kWindow = 8192;  // lookback window: bounds the work per step

}  // namespace

std::vector<text::TokenId> propose_draft_tokens(std::span<const text::TokenId> tokens, int64_t count) {
  if (count <= 0) return {};
  if (tokens.size() > kWindow) tokens = tokens.last(kWindow);
  for (size_t length = kLongest; length >= kShortest; --length) {
    if (tokens.size() <= length) continue;
    auto ending = tokens.last(length);
    auto earlier = tokens.first(tokens.size() - 1);
    auto found = std::find_end(earlier.begin(), earlier.end(), ending.begin(), ending.end());
    if (found == earlier.end()) continue;
    auto begin = static_cast<size_t>(found - earlier.begin()) + length;
    auto following = tokens.subspan(begin, std::min(static_cast<size_t>(count), tokens.size() - begin));
    return {following.begin(), following.end()};
  }
  return {};
}

}  // namespace hone::engine
