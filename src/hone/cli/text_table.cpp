#include "hone/cli/text_table.h"

#include "hone/base/terminal.h"
#include "hone/cli/help.h"

namespace hone::cli {

std::string TextTable::str(size_t width, size_t indent) const {
  std::vector<size_t> widths;
  auto measure = [&](const std::vector<std::string>& cells) {
    if (widths.size() < cells.size()) widths.resize(cells.size());
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], terminal::display_width(cells[i]));
  };
  measure(titles_);
  for (const auto& row : rows_) measure(row);
  auto line = [&](const std::vector<std::string>& cells) {
    std::string out(indent, ' ');
    size_t used = indent;
    for (size_t i = 0; i < cells.size(); ++i) {
      bool last = i + 1 == cells.size();
      auto gap = widths[i] - terminal::display_width(cells[i]);
      bool right = std::find(right_.begin(), right_.end(), i) != right_.end();
      if (right) out += std::string(gap, ' ');
      out += last && used + 20 < width ? wrap(cells[i], width - used, used) : cells[i];
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
