#include "hone/io/single_expert.h"

#include <charconv>

namespace hone::io {

std::optional<SingleExpert> parse_single_expert(std::string_view module) {
  constexpr std::string_view kMiddle = ".experts.";
  constexpr int64_t kMostSingleExperts = 1 << 16;
  const size_t at = module.rfind(kMiddle);
  if (at == module.npos) return std::nullopt;
  const char *begin = module.data() + at + kMiddle.size(), *end = module.data() + module.size();
  int64_t expert = -1;
  const auto [stop, status] = std::from_chars(begin, end, expert);
  if (status != std::errc() || expert < 0 || expert >= kMostSingleExperts || stop == end || *stop != '.') return std::nullopt;
  return SingleExpert{std::string(module.substr(0, at)), expert, std::string(stop + 1, end)};
}

}  // namespace hone::io
