#include "hone/cli/text_table.h"

#include <algorithm>

#include "hone/base/terminal.h"
#include "hone/cli/page.h"

namespace hone::cli {
namespace {

constexpr size_t kLeastForLast = 20;  // width below which wrapping the last column does not help

}  // namespace

std::string TextTable::one_below_the_other(size_t width, size_t indent) const {
  size_t title_width = 0;
  for (const auto& title : titles_) title_width = std::max(title_width, terminal::display_width(title));
  size_t used = indent + title_width + 2;
  std::string out;
  for (const auto& row : rows_) {
    if (!out.empty()) out += "\n";
    for (size_t i = 0; i < row.size(); ++i) {
      auto title = i < titles_.size() ? titles_[i] : std::string();
      auto gap = title_width - terminal::display_width(title);
      out += std::string(indent, ' ') + terminal::styled(title, terminal::Style::bold) + std::string(gap + 2, ' ');
      out += (used + kLeastForLast < width ? wrap(row[i], width - used, used) : row[i]) + "\n";
    }
  }
  return out;
}

std::string TextTable::str(size_t width, size_t indent) const {
  std::vector<size_t> widths;
  auto measure = [&](const std::vector<std::string>& cells) {
    if (widths.size() < cells.size()) widths.resize(cells.size());
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], terminal::display_width(cells[i]));
  };
  measure(titles_);
  for (const auto& row : rows_) measure(row);
  size_t fixed = indent;
  for (size_t i = 0; i + 1 < widths.size(); ++i) fixed += widths[i] + 2;
  size_t least = widths.empty() ? 0 : std::min(widths.back(), kLeastForLast);
  // Programs reading a pipe expect one row per line.
  if (!titles_.empty() && fixed + least > width && terminal::has_width(1)) return one_below_the_other(width, indent);
  auto line = [&](const std::vector<std::string>& cells) {
    std::string out(indent, ' ');
    size_t used = indent;
    for (size_t i = 0; i < cells.size(); ++i) {
      bool last = i + 1 == cells.size();
      auto gap = widths[i] - terminal::display_width(cells[i]);
      bool right = std::find(right_.begin(), right_.end(), i) != right_.end();
      if (right) out += std::string(gap, ' ');
      out += last && used + kLeastForLast < width ? wrap(cells[i], width - used, used) : cells[i];
      if (!last) out += std::string(right ? 2 : gap + 2, ' ');
      used += widths[i] + 2;
    }
    while (out.ends_with(' ')) out.pop_back();
    return out + "\n";
  };
  std::string out;
  if (!titles_.empty()) {
    std::vector<std::string> bold;
    for (const auto& title : titles_) bold.push_back(terminal::styled(title, terminal::Style::bold));
    out += line(bold);
  }
  for (const auto& row : rows_) out += line(row);
  return out;
}

}  // namespace hone::cli
