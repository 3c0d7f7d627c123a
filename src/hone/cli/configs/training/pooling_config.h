// The losses of embeddings, rerankers, classifiers and decisions, and the rows they take. As in ms-swift, many of their settings
// are environment variables.
#pragma once
#include "hone/cli/arguments/model.h"
#include "hone/data/batches/make_loader.h"
#include "hone/train/methods/task.h"

namespace hone::cli {

// The loss_type of a task; its default if none is set. Throws UserError(usage) for the loss of another task.
std::string pooling_loss(const Options& options, train::Task task);
void read_loss_settings(const ModelArguments& args, train::TaskConfig& config);
data::PoolingDataConfig pooling_rows(const train::TaskConfig& task);

}  // namespace hone::cli
