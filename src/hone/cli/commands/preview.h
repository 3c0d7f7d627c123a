// hone preview: rows as the trainer will see them, and a table of lengths and problems.
#pragma once
#include <optional>
#include <string>

#include "hone/data/encode/encoder.h"
#include "hone/data/grouped_rows.h"
#include "hone/data/open_datasets.h"

namespace hone::cli {

struct PreviewOptions {
  std::string model;
  data::DatasetConfig dataset;
  data::EncodeConfig encode;
  std::optional<data::GroupConfig> groups;  // texts judged as wholes; none: rows are written
  int64_t rows = 3;        // shown
  int64_t scan = 10'000;   // looked at for the table
  bool ids = false;
  std::string format = "text";  // or jsonl: one object a shown row, without the table
};

int preview_command(const PreviewOptions& options);

}  // namespace hone::cli
