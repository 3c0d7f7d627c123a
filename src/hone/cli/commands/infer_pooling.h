// infer for models that judge texts: what they say of each row of a dataset, or of what is typed.
#pragma once
#include "hone/cli/options.h"
#include "hone/data/datasets/source.h"
#include "hone/train/methods/task.h"

namespace hone::cli {

// `rows` is null when there is no dataset.
int infer_pooling_rows(const Options& options, const train::TaskConfig& task, const std::filesystem::path& folder,
                       const data::ConversationSource* rows);

// Where `infer` writes what it finds out about a dataset. Its folder is made, and a place that cannot be written to is a
// UserError: called before a model is loaded and answers are lost.
std::filesystem::path result_file(const Options& options, const std::filesystem::path& folder);

}  // namespace hone::cli
