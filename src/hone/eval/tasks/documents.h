// The documents of a task: rows of files in a folder, of files listed by the task, or of a dataset on a hub.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "hone/base/json.h"
#include "hone/eval/tasks/task.h"

namespace hone::eval {

// The folder of a dataset id, downloaded if needed.
using FetchDataset = std::function<std::filesystem::path(const std::string& id)>;

// All documents of a split. Throws UserError(bad_data) listing what exists instead.
std::vector<Json> load_documents(const DatasetConfig& dataset, const std::string& split, const FetchDataset& fetch);

// The columns that a task's process_docs adds. Throws UserError(bad_data) for documents without the columns that it reads.
void process_documents(const Task& task, std::vector<Json>& documents);

// The folder itself if it exists; else the result of `fetch`.
std::filesystem::path dataset_folder(const DatasetConfig& dataset, const FetchDataset& fetch);

// The subsets of a folder: subfolders with the split's files, or files named after subject and split.
std::vector<std::string> list_subsets(const std::filesystem::path& folder, const std::string& split);

}  // namespace hone::eval
