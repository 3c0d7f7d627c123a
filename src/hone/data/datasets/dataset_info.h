// Dataset registries: LLaMA-Factory's dataset_info.json (name
// -> entry) and ms-swift's custom_dataset_info (a list).
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hone/data/formats/format.h"

namespace hone::data {

// An entry of dataset_info.json in dataset_dir.
struct FactoryEntry {
  std::string name;
  std::string file_name;     // inside dataset_dir; empty for hub entries
  std::string hf_id, ms_id;  // hub ids
  std::string subset, split = "train", folder;
  std::optional<int64_t> num_samples;
  FactoryFormatOptions format;
  std::vector<std::string> unread;  // keys that no part of hone or LLaMA-Factory reads, as sentences for a warning
};

// Throws UserError(bad_data) for an entry of the wrong shape and UserError(usage) naming the nearest known names.
FactoryEntry factory_entry(const Json& info, const std::string& name, const std::string& where);
Result<FactoryEntry> parse_factory_entry(const std::string& name, const Json& entry);
Json read_factory_info(const std::filesystem::path& dataset_dir);  // an empty object when the folder has none

struct SwiftSubset {
  std::string name, subset = "default";
  std::vector<std::string> split;  // empty: the entry's
  std::optional<std::map<std::string, std::string>> columns;
  bool weak = false;  // "all" leaves it out
};

// An entry of a custom_dataset_info list.
struct SwiftEntry {
  std::string ms_id, hf_id, path, name;
  std::vector<SwiftSubset> subsets;
  std::vector<std::string> split = {"train"};
  SwiftFormatOptions format;
};

Result<SwiftEntry> parse_swift_entry(const Json& entry, const std::filesystem::path& base_dir);
// `sources`: paths of JSON files or inline JSON lists.
std::vector<SwiftEntry> read_swift_info(const std::vector<std::string>& sources);
// By name, exact path or id, then by the last component of the path or id.
const SwiftEntry* find_swift_entry(const std::vector<SwiftEntry>& entries, const std::string& word);

}  // namespace hone::data
