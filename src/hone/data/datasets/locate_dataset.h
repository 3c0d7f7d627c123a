// From a dataset argument to its files and their format, for both front ends.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hone/data/datasets/dataset_info.h"
#include "hone/data/datasets/open_datasets.h"
#include "hone/data/readers/row_reader.h"

namespace hone::data {

// Files that share columns and format. No files: the built-in self-cognition rows of `variant`.
struct DatasetPart {
  std::vector<fs::path> files;
  std::string variant;
  std::function<std::shared_ptr<const RowFormat>(const std::vector<std::string>& columns)> format;
};

struct LocatedDataset {
  std::string name;
  std::vector<DatasetPart> parts;
  std::optional<int64_t> sample;       // "#N"
  std::optional<int64_t> num_samples;  // LLaMA-Factory's entry
};

class DatasetLocator {
 public:
  explicit DatasetLocator(const DatasetConfig& config);
  // Throws UserError if nothing is found.
  LocatedDataset locate(const std::string& word) const;

 private:
  LocatedDataset locate_word(const std::string& word) const;
  LocatedDataset locate_entry(const std::string& word) const;
  fs::path folder_of(const std::string& id, const std::string& hub) const;
  DatasetPart swift_part(std::vector<fs::path> files, const SwiftFormatOptions& options) const;
  std::vector<DatasetPart> folder_parts(const fs::path& folder, const std::vector<std::string>& subsets, const SwiftEntry* entry,
                                        bool is_known = false) const;
  RowRequirements demands() const { return {config_.pretraining, config_.prompts_only}; }

  const DatasetConfig& config_;
  Json factory_info_;
  std::vector<SwiftEntry> swift_entries_;
};

}  // namespace hone::data
