// The documents of a task: rows of files in a folder, of files that the task lists, or of a dataset on a hub.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "hone/base/json.h"
#include "hone/eval/task.h"

namespace hone::eval {

// A folder for a dataset's id, fetched if need be.
using FetchDataset = std::function<std::filesystem::path(const std::string& id)>;

// All documents of a split. Throws UserError(bad_data) that lists what is there instead.
std::vector<Json> load_documents(const DatasetConfig& dataset, const std::string& split, const FetchDataset& fetch);

// The folder itself, where it is one; else what `fetch` finds.
std::filesystem::path dataset_folder(const DatasetConfig& dataset, const FetchDataset& fetch);

// The parts of a folder, each a subset of its own: subfolders with the split's files, or files named after subject and split.
std::vector<std::string> list_subsets(const std::filesystem::path& folder, const std::string& split);

}  // namespace hone::eval
