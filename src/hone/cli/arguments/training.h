// The options of table/training.cpp as typed fields (arg.h).
#pragma once
#include "hone/cli/arguments/arg.h"

namespace hone::cli {

// The training loop: its length, precision, losses and evaluation.
struct TrainingArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<std::string> stage{*this, "stage"};
  Arg<bool> do_train{*this, "do_train"};
  Arg<bool> do_eval{*this, "do_eval"};
  Arg<bool> do_predict{*this, "do_predict"};
  Arg<double> num_train_epochs{*this, "num_train_epochs"};
  Arg<int64_t> max_steps{*this, "max_steps"};
  Arg<double> max_epochs{*this, "max_epochs"};
  Arg<int64_t> per_device_train_batch_size{*this, "per_device_train_batch_size"};
  Arg<int64_t> per_device_eval_batch_size{*this, "per_device_eval_batch_size"};
  Arg<int64_t> gradient_accumulation_steps{*this, "gradient_accumulation_steps"};
  Arg<double> max_grad_norm{*this, "max_grad_norm"};
  Arg<double> label_smoothing_factor{*this, "label_smoothing_factor"};
  Arg<double> neftune_noise_alpha{*this, "neftune_noise_alpha"};
  Arg<bool> gradient_checkpointing{*this, "gradient_checkpointing"};
  Arg<double> activation_memory_budget{*this, "activation_memory_budget"};
  Arg<std::string> recompute_granularity{*this, "recompute_granularity"};
  Arg<std::string> recompute_modules{*this, "recompute_modules"};
  Arg<int64_t> recompute_num_layers{*this, "recompute_num_layers"};
  Arg<std::vector<std::string>> recompute_layers{*this, "recompute_layers"};
  Arg<bool> vit_gradient_checkpointing{*this, "vit_gradient_checkpointing"};
  Arg<std::string> tower_cache{*this, "tower_cache"};
  Arg<double> tower_cache_size{*this, "tower_cache_size"};
  Arg<bool> bf16{*this, "bf16"};
  Arg<bool> fp16{*this, "fp16"};
  Arg<std::string> fp16_opt_level{*this, "fp16_opt_level"};
  Arg<bool> pure_bf16{*this, "pure_bf16"};
  Arg<bool> tf32{*this, "tf32"};
  Arg<bool> full_determinism{*this, "full_determinism"};
  Arg<bool> training_graphs{*this, "training_graphs"};
  Arg<std::string> torch_compile_backend{*this, "torch_compile_backend"};
  Arg<std::string> torch_compile_mode{*this, "torch_compile_mode"};
  Arg<std::string> non_finite{*this, "non_finite"};
  Arg<std::string> loss_spike{*this, "loss_spike"};
  Arg<double> loss_spike_sigmas{*this, "loss_spike_sigmas"};
  Arg<std::string> loss_type{*this, "loss_type"};
  Arg<bool> enable_dft_loss{*this, "enable_dft_loss"};
  Arg<bool> enable_channel_loss{*this, "enable_channel_loss"};
  Arg<bool> use_asft_loss{*this, "use_asft_loss"};
  Arg<double> asft_alpha{*this, "asft_alpha"};
  Arg<bool> use_eaft_loss{*this, "use_eaft_loss"};
  Arg<double> eaft_alpha{*this, "eaft_alpha"};
  Arg<double> router_aux_loss_coef{*this, "router_aux_loss_coef"};
  Arg<double> router_z_loss_coef{*this, "router_z_loss_coef"};
  Arg<double> moe_expert_capacity_factor{*this, "moe_expert_capacity_factor"};
  Arg<std::string> moe_token_drop_policy{*this, "moe_token_drop_policy"};
  Arg<bool> auto_find_batch_size{*this, "auto_find_batch_size"};
  Arg<int64_t> torch_empty_cache_steps{*this, "torch_empty_cache_steps"};
  Arg<std::string> resume_from_checkpoint{*this, "resume_from_checkpoint"};
  Arg<bool> resume_only_model{*this, "resume_only_model"};
  Arg<bool> ignore_data_skip{*this, "ignore_data_skip"};
  Arg<std::string> acc_strategy{*this, "acc_strategy"};
  Arg<bool> compute_accuracy{*this, "compute_accuracy"};
  Arg<bool> fp8{*this, "fp8"};
  Arg<std::string> fp8_backend{*this, "fp8_backend"};
  Arg<bool> fp8_enable_fsdp_float8_all_gather{*this, "fp8_enable_fsdp_float8_all_gather"};
  Arg<bool> bf16_full_eval{*this, "bf16_full_eval"};
  Arg<bool> fp16_full_eval{*this, "fp16_full_eval"};
  Arg<std::string> debug{*this, "debug"};
  Arg<bool> sortish_sampler{*this, "sortish_sampler"};
  Arg<bool> async_save{*this, "async_save"};
  Arg<std::string> eval_strategy{*this, "eval_strategy"};
  Arg<double> eval_steps{*this, "eval_steps"};
  Arg<double> eval_delay{*this, "eval_delay"};
  Arg<int64_t> eval_iters{*this, "eval_iters"};
  Arg<bool> eval_on_start{*this, "eval_on_start"};
  Arg<bool> prediction_loss_only{*this, "prediction_loss_only"};
  Arg<std::string> metric_for_best_model{*this, "metric_for_best_model"};
  Arg<bool> greater_is_better{*this, "greater_is_better"};
  Arg<bool> load_best_model_at_end{*this, "load_best_model_at_end"};
  Arg<int64_t> early_stop_interval{*this, "early_stop_interval"};
  Arg<std::string> eval_metric{*this, "eval_metric"};
  Arg<bool> eval_use_evalscope{*this, "eval_use_evalscope"};
  Arg<bool> predict_with_generate{*this, "predict_with_generate"};
  Arg<int64_t> generation_max_length{*this, "generation_max_length"};
  Arg<int64_t> generation_num_beams{*this, "generation_num_beams"};
  Arg<std::string> generation_config{*this, "generation_config"};
};

}  // namespace hone::cli
