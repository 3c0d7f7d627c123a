// Rows of a Parquet file. One of two files implements it: with_arrow/ reads, without_arrow/ reports what to install.
#pragma once
#include <memory>

#include "hone/data/readers/row_reader.h"

namespace hone::data {

std::unique_ptr<RowReader> open_parquet(const fs::path& file);
bool can_read_parquet();

}  // namespace hone::data
