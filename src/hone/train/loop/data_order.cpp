#include "hone/train/loop/data_order.h"

#include <array>

#include "hone/train/checkpoints/checkpoint.h"

namespace hone::train {
namespace {

constexpr std::array kPackings{"none", "best_fit", "next_fit", "knapsack", "joined", "blocks"};
constexpr std::array kTruncations{"delete", "left", "right", "split"};
constexpr std::array kStoppings{"first_exhausted", "all_exhausted", "all_exhausted_once"};

// A file is identified by its name: its mount point does not matter, its row count is compared too.
Json dataset_names(const std::vector<std::string>& words) {
  Json names = Json::array();
  for (const auto& word : words) {
    auto path = word.substr(0, word.find('#'));
    names.push_back(fs::exists(path) ? fs::path(path).filename().string() + word.substr(path.size()) : word);
  }
  return names;
}

// The loader can resume among the same rows with another batch size, but not inside a stream's or a window's shuffle.
bool only_regroups(const std::string& setting, const Json& now) {
  bool regroups = setting == "per_device_train_batch_size" || setting == "gradient_accumulation_steps";
  return regroups && now["streaming"] == false && now["group_by_length"] == false;
}

std::string shown(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

}  // namespace

Json data_order(const TrainingJob& job, int64_t rows) {
  bool factory = job.trainer.layout == Layout::factory;
  const auto& datasets = job.datasets;
  return {{"dataset", dataset_names(datasets.datasets)},
          {"rows", rows},
          {factory ? "val_size" : "split_dataset_ratio", factory ? datasets.val_size : datasets.split_dataset_ratio},
          {"max_samples", datasets.max_samples},
          {"data_seed", datasets.data_seed},
          {"dataset_shuffle", datasets.shuffle},
          {factory ? "shuffle" : "train_dataloader_shuffle", job.loader.shuffle},
          {"streaming", datasets.streaming},
          {"interleave_prob", datasets.interleave_prob},
          {"stopping_strategy", kStoppings[static_cast<size_t>(datasets.stopping)]},
          {factory ? "buffer_size" : "shuffle_buffer_size", job.loader.shuffle_buffer},
          {"template", job.encode.template_name},
          {factory ? "cutoff_len" : "max_length", job.encode.max_length},
          {"truncation_strategy", kTruncations[static_cast<size_t>(job.encode.truncation)]},
          {"packing", kPackings[static_cast<size_t>(job.loader.packing)]},
          {"packing_length", job.loader.packing_length},
          {factory ? "preprocessing_batch_size" : "packing_window",
           job.loader.packing == data::Packing::none ? 0 : job.loader.packing_window},
          {"group_by_length", job.loader.group_by_length},
          {"per_device_train_batch_size", job.loader.batch_size},
          {"gradient_accumulation_steps", job.trainer.gradient_accumulation_steps}};
}

bool require_same_order(const fs::path& checkpoint, const Json& now) {
  auto file = checkpoint / kStateFile;
  if (!fs::exists(file)) return false;
  auto state = read_config_file(file.string());
  if (!state.contains("data_order")) return false;
  std::vector<std::string> changes;
  bool regroups = false;
  for (const auto& [name, before] : state["data_order"].items()) {
    if (!now.contains(name) || now[name] == before) continue;
    if (only_regroups(name, now))
      regroups = true;
    else
      changes.push_back(fmt::format("`{}` was {} and is now {}", name, shown(before), shown(now[name])));
  }
  if (changes.empty()) return regroups;
  throw UserError(ExitCode::bad_checkpoint,
                  fmt::format("{} was trained with samples in another order: {}", checkpoint.string(), fmt::join(changes, "; ")),
                  "resume with the settings of the first run, or restart the data with `ignore_data_skip` true");
}

}  // namespace hone::train
