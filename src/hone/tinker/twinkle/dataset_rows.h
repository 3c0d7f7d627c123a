// Rows of Twinkle's client in memory, of which a server holds a limited amount. Everything here throws RequestError.
#pragma once
#include <vector>

#include "hone/base/json.h"

namespace hone::tinker {

inline constexpr size_t kMostRows = 1'000'000;

size_t bytes_in_memory(const Json& value);  // about

// Rows of a change, counted while they are made: a few requests could otherwise ask for more than there is memory for.
class CountedRows {
 public:
  explicit CountedRows(size_t before) : bytes_(before) {}
  void count(const Json& row);
  void push_back(Json row);
  std::vector<Json> take() { return std::move(rows_); }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  std::vector<Json> rows_;
};

// DatasetMeta's data: a list of rows, or columns.
std::vector<Json> rows_of_data(const Json& data);
// The rows that DatasetMeta's data_slice names. Wraps around at the end, as in Twinkle.
std::vector<Json> sliced(const std::vector<Json>& rows, const Json& slice, size_t bytes);

}  // namespace hone::tinker
