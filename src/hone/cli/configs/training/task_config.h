// The task of the model: ms-swift's task_type and its settings.
#pragma once
#include "hone/cli/options.h"
#include "hone/data/batches/make_loader.h"
#include "hone/train/methods/task.h"
#include "hone/train/run.h"

namespace hone::cli {

// The default is the folder's own task if it contains a classifier. Throws UserError(usage) for incompatible settings.
train::TaskConfig task_config(const Options& options, const std::filesystem::path& folder);
// The task's changes to config.json; nothing for text generation.
Json task_changes(const Options& options, const std::filesystem::path& folder);
// How the task groups a row's texts; none for text generation.
std::optional<data::PoolingDataConfig> pooling_data_config(const Options& options, const std::filesystem::path& folder);
// The folder whose value_head.safetensors inference commands read; none for text generation or another head. LLaMA-Factory's
// users set stage: rm, others task_type seq_cls, as in such a model's args.json.
std::optional<std::filesystem::path> value_head_folder(const Options& options, const std::filesystem::path& folder);
// Logs that a score head is newly initialized, if neither the folder nor an adapter has one.
void note_new_head(const Options& options, const std::filesystem::path& folder);
// Everything of a training run that depends on its task.
void apply_task(const Options& options, train::TrainingJob& job);

}  // namespace hone::cli
