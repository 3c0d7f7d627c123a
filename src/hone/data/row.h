// One record of a dataset file and its origin.
#pragma once
#include <cstdint>
#include <string>

#include "hone/base/json.h"

namespace hone::data {

// "train.jsonl:1042" for messages; dataset and row number identify a sample in checkpoints and reports.
struct RowOrigin {
  std::string file;
  int64_t line = 0;  // 1-based line, or row number for formats without lines
  std::string dataset;
  std::string str() const { return file + ":" + std::to_string(line); }
};

struct Row {
  Json fields;  // an object
  RowOrigin origin;
};

}  // namespace hone::data
