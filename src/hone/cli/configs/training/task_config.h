// What the model is for: ms-swift's task_type and what belongs to it.
#pragma once
#include "hone/cli/options.h"
#include "hone/data/batches/make_loader.h"
#include "hone/train/methods/task.h"
#include "hone/train/run.h"

namespace hone::cli {

// Of a folder that holds a classifier, its own task is the default. Throws UserError(usage) for what does not go together.
train::TaskConfig task_config(const Options& options, const std::filesystem::path& folder);
// What the task changes in config.json; nothing when the model continues writing.
Json task_changes(const Options& options, const std::filesystem::path& folder);
// How the task groups a row's texts; none when the model writes.
std::optional<data::PoolingDataConfig> pooling_data_config(const Options& options, const std::filesystem::path& folder);
// Whose value_head.safetensors is read by commands that do not train; none: the model writes, or has another head.
// LLaMA-Factory's users say stage: rm, others task_type seq_cls, as args.json of such a model does.
std::optional<std::filesystem::path> value_head_folder(const Options& options, const std::filesystem::path& folder);
// Says that a head of scores starts from scratch, where neither the folder nor an adapter brings one.
void note_new_head(const Options& options, const std::filesystem::path& folder);
// Everything of a training run that depends on its task.
void apply_task(const Options& options, train::TrainingJob& job);

}  // namespace hone::cli
