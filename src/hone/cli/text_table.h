// Aligns rows of cells for a terminal; colors do not affect the columns.
#pragma once
#include <string>
#include <vector>

namespace hone::cli {

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> titles = {}) : titles_(std::move(titles)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  void align_right(size_t column) { right_.push_back(column); }
  // Wraps the last column to the remaining `width`. On a narrow terminal, each row becomes lines of "title cell".
  std::string str(size_t width, size_t indent = 0) const;

 private:
  std::string one_below_the_other(size_t width, size_t indent) const;

  std::vector<std::string> titles_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> right_;
};

}  // namespace hone::cli
