#include "hone/train/checkpoints/merged_checkpoint.h"

#include "hone/base/log.h"
#include "hone/train/checkpoints/checkpoint.h"
#include "hone/tuner/merge.h"

namespace hone::train {

void write_merged_checkpoint(const TrainingJob& job, const text::Tokenizer& tokenizer, const fs::path& checkpoint) {
  // Adapters below the trained one were merged into the base in memory.
  auto adapters = job.tuner.adapters;
  if (!adapters.empty() && !job.tuner.create_new_adapter) adapters.pop_back();  // the run continued it
  adapters.push_back(checkpoint);
  tuner::MergeOptions options;
  options.max_shard_bytes = job.max_shard_bytes;
  options.exist_ok = true;  // a resumed run may save a step again
  options.changes = job.load.changes;
  if (job.resize_embeddings) options.changes.vocabulary = job.resize_embeddings(tokenizer);
  const auto folder = merged_checkpoint(checkpoint);
  try {
    tuner::merge_adapters(job.model_folder, adapters, folder, options);
    log::info("saved {}", folder.string());
  } catch (const std::exception& cause) {
    log::error("{} was not written: {}. Training continues{}", folder.string(), cause.what(),
               job.commands.merge ? "; merge it later with: " + job.commands.merge(checkpoint) : "");
  }
}

}  // namespace hone::train
