#include "hone/base/strings/edit_distance.h"

#include <algorithm>
#include <vector>

namespace hone {

// Optimal string alignment, three rows at a time.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

size_t misspelling_limit(size_t length) { return length <= 3 ? 1 : std::max<size_t>(2, length / 3); }

std::string_view nearest_word(std::string_view typed, std::span<const std::string_view> words) {
  size_t best = misspelling_limit(typed.size()) + 1;
  std::string_view found;
  for (auto word : words)
    if (auto distance = edit_distance(typed, word); distance < best) best = distance, found = word;
  return found;
}

}  // namespace hone
