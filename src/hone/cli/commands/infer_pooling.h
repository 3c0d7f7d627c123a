// infer for pooling models: outputs for each row of a dataset, or for interactive input.
#pragma once
#include "hone/cli/options.h"
#include "hone/data/datasets/source.h"
#include "hone/train/methods/task.h"

namespace hone::cli {

// `rows` is null without a dataset.
int infer_pooling_rows(const Options& options, const train::TaskConfig& task, const std::filesystem::path& folder,
                       const data::ConversationSource* rows);

// Where `infer` writes its results for a dataset. Creates the folder, and throws UserError if it is not writable: called before
// the model is loaded, so that no results are lost.
std::filesystem::path result_file(const Options& options, const std::filesystem::path& folder);

}  // namespace hone::cli
