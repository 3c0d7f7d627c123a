// The options of table/data.cpp as typed fields (arg.h).
#pragma once
#include "hone/cli/arguments/arg.h"

namespace hone::cli {

// Which rows, in which order, how long and how packed.
struct DataArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<std::string> train_sampling_strategy{*this, "train_sampling_strategy"};
  Arg<double> decision_drop_instructions{*this, "decision_drop_instructions"};
  Arg<int64_t> decision_subsample_options{*this, "decision_subsample_options"};
  Arg<double> decision_state_as_text{*this, "decision_state_as_text"};
  Arg<bool> decision_shuffle_fields{*this, "decision_shuffle_fields"};
  Arg<std::vector<std::string>> dataset{*this, "dataset"};
  Arg<std::vector<std::string>> val_dataset{*this, "val_dataset"};
  Arg<std::vector<std::string>> cached_dataset{*this, "cached_dataset"};
  Arg<std::vector<std::string>> cached_val_dataset{*this, "cached_val_dataset"};
  Arg<std::string> dataset_dir{*this, "dataset_dir"};
  Arg<std::string> media_dir{*this, "media_dir"};
  Arg<std::vector<std::string>> custom_dataset_info{*this, "custom_dataset_info"};
  Arg<double> split_dataset_ratio{*this, "split_dataset_ratio"};
  Arg<int64_t> data_seed{*this, "data_seed"};
  Arg<bool> dataset_shuffle{*this, "dataset_shuffle"};
  Arg<bool> val_dataset_shuffle{*this, "val_dataset_shuffle"};
  Arg<bool> train_dataloader_shuffle{*this, "train_dataloader_shuffle"};
  Arg<int64_t> max_samples{*this, "max_samples"};
  Arg<int64_t> val_dataset_sample{*this, "val_dataset_sample"};
  Arg<std::vector<double>> interleave_prob{*this, "interleave_prob"};
  Arg<std::string> stopping_strategy{*this, "stopping_strategy"};
  Arg<std::string> mix_strategy{*this, "mix_strategy"};
  Arg<bool> streaming{*this, "streaming"};
  Arg<int64_t> shuffle_buffer_size{*this, "shuffle_buffer_size"};
  Arg<int64_t> dataset_num_proc{*this, "dataset_num_proc"};
  Arg<int64_t> dataloader_num_workers{*this, "dataloader_num_workers"};
  Arg<int64_t> dataloader_prefetch_factor{*this, "dataloader_prefetch_factor"};
  Arg<bool> dataloader_drop_last{*this, "dataloader_drop_last"};
  Arg<bool> dataloader_pin_memory{*this, "dataloader_pin_memory"};
  Arg<int64_t> preprocessing_batch_size{*this, "preprocessing_batch_size"};
  Arg<Json> columns{*this, "columns"};
  Arg<bool> disable_auto_column_mapping{*this, "disable_auto_column_mapping"};
  Arg<bool> strict{*this, "strict"};
  Arg<std::vector<std::string>> model_name{*this, "model_name"};
  Arg<std::vector<std::string>> model_author{*this, "model_author"};
  Arg<bool> eval_on_each_dataset{*this, "eval_on_each_dataset"};
  Arg<bool> group_by_length{*this, "group_by_length"};
  Arg<int64_t> max_length{*this, "max_length"};
  Arg<std::string> truncation_strategy{*this, "truncation_strategy"};
  Arg<bool> packing{*this, "packing"};
  Arg<int64_t> packing_length{*this, "packing_length"};
  Arg<std::string> packing_strategy{*this, "packing_strategy"};
  Arg<int64_t> packing_num_proc{*this, "packing_num_proc"};
  Arg<bool> neat_packing{*this, "neat_packing"};
  Arg<int64_t> train_dataset_sample{*this, "train_dataset_sample"};
};

// How rows become tokens and labels.
struct TemplateArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<std::string> template_name{*this, "template"};
  Arg<std::string> template_backend{*this, "template_backend"};
  Arg<bool> use_chat_template{*this, "use_chat_template"};
  Arg<std::string> system{*this, "system"};
  Arg<std::string> response_prefix{*this, "response_prefix"};
  Arg<std::string> agent_template{*this, "agent_template"};
  Arg<bool> enable_thinking{*this, "enable_thinking"};
  Arg<bool> preserve_thinking{*this, "preserve_thinking"};
  Arg<bool> add_non_thinking_prefix{*this, "add_non_thinking_prefix"};
  Arg<bool> disable_ignore_empty_think{*this, "disable_ignore_empty_think"};
  Arg<std::string> loss_scale{*this, "loss_scale"};
  Arg<std::string> norm_bbox{*this, "norm_bbox"};
  Arg<bool> is_binary_loss_scale{*this, "is_binary_loss_scale"};
  Arg<bool> train_on_prompt{*this, "train_on_prompt"};
  Arg<bool> mask_history{*this, "mask_history"};
};

}  // namespace hone::cli
