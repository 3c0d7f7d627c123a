// The options of table/tuners.cpp as typed fields (arg.h).
#pragma once
#include "hone/cli/arguments/arg.h"

namespace hone::cli {

// Whether a tuner_type is LoRA in one of its forms, over a base that stays as it is.
inline bool trains_lora(std::string_view tuner_type) {
  return tuner_type == "lora" || tuner_type == "lora_llm" || tuner_type == "longlora";
}

// The parts of the model to train.
struct TunerArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<std::string> tuner_type{*this, "tuner_type"};
  Arg<bool> create_new_adapter{*this, "create_new_adapter"};
  Arg<int64_t> lora_rank{*this, "lora_rank"};
  Arg<double> lora_alpha{*this, "lora_alpha"};
  Arg<double> lora_dropout{*this, "lora_dropout"};
  Arg<std::vector<std::string>> target_modules{*this, "target_modules"};
  Arg<std::string> target_regex{*this, "target_regex"};
  Arg<std::vector<std::string>> target_parameters{*this, "target_parameters"};
  Arg<std::vector<std::string>> modules_to_save{*this, "modules_to_save"};
  Arg<std::string> lora_bias{*this, "lora_bias"};
  Arg<std::string> lora_dtype{*this, "lora_dtype"};
  Arg<bool> use_rslora{*this, "use_rslora"};
  Arg<bool> use_dora{*this, "use_dora"};
  Arg<std::string> init_weights{*this, "init_weights"};
  Arg<bool> pissa_init{*this, "pissa_init"};
  Arg<int64_t> pissa_iter{*this, "pissa_iter"};
  Arg<bool> pissa_convert{*this, "pissa_convert"};
  Arg<std::string> loftq_bits{*this, "loftq_bits"};
  Arg<int64_t> loftq_iter{*this, "loftq_iter"};
  Arg<int64_t> lora_ga_batch_size{*this, "lora_ga_batch_size"};
  Arg<int64_t> lora_ga_iters{*this, "lora_ga_iters"};
  Arg<int64_t> lora_ga_max_length{*this, "lora_ga_max_length"};
  Arg<std::string> lora_ga_direction{*this, "lora_ga_direction"};
  Arg<std::string> lora_ga_scale{*this, "lora_ga_scale"};
  Arg<int64_t> lora_ga_stable_gamma{*this, "lora_ga_stable_gamma"};
  Arg<int64_t> freeze_trainable_layers{*this, "freeze_trainable_layers"};
  Arg<std::vector<std::string>> freeze_trainable_modules{*this, "freeze_trainable_modules"};
  Arg<std::vector<std::string>> freeze_extra_modules{*this, "freeze_extra_modules"};
  Arg<std::vector<std::string>> freeze_parameters{*this, "freeze_parameters"};
  Arg<std::string> freeze_parameters_regex{*this, "freeze_parameters_regex"};
  Arg<double> freeze_parameters_ratio{*this, "freeze_parameters_ratio"};
  Arg<std::vector<std::string>> trainable_parameters{*this, "trainable_parameters"};
  Arg<std::string> trainable_parameters_regex{*this, "trainable_parameters_regex"};
  Arg<bool> freeze_llm{*this, "freeze_llm"};
  Arg<bool> freeze_vit{*this, "freeze_vit"};
  Arg<bool> freeze_aligner{*this, "freeze_aligner"};
  Arg<bool> use_llama_pro{*this, "use_llama_pro"};
  Arg<int64_t> adalora_target_r{*this, "adalora_target_r"};
  Arg<int64_t> adalora_init_r{*this, "adalora_init_r"};
  Arg<int64_t> adalora_tinit{*this, "adalora_tinit"};
  Arg<int64_t> adalora_tfinal{*this, "adalora_tfinal"};
  Arg<int64_t> adalora_deltaT{*this, "adalora_deltaT"};
  Arg<double> adalora_beta1{*this, "adalora_beta1"};
  Arg<double> adalora_beta2{*this, "adalora_beta2"};
  Arg<double> adalora_orth_reg_weight{*this, "adalora_orth_reg_weight"};
  Arg<int64_t> vera_rank{*this, "vera_rank"};
  Arg<int64_t> vera_projection_prng_key{*this, "vera_projection_prng_key"};
  Arg<double> vera_dropout{*this, "vera_dropout"};
  Arg<double> vera_d_initial{*this, "vera_d_initial"};
  Arg<int64_t> boft_block_size{*this, "boft_block_size"};
  Arg<int64_t> boft_block_num{*this, "boft_block_num"};
  Arg<int64_t> boft_n_butterfly_factor{*this, "boft_n_butterfly_factor"};
  Arg<double> boft_dropout{*this, "boft_dropout"};
  Arg<int64_t> fourier_n_frequency{*this, "fourier_n_frequency"};
  Arg<double> fourier_scaling{*this, "fourier_scaling"};
  Arg<std::vector<std::string>> reft_layers{*this, "reft_layers"};
  Arg<std::string> reft_layer_key{*this, "reft_layer_key"};
  Arg<int64_t> reft_rank{*this, "reft_rank"};
  Arg<std::string> reft_intervention_type{*this, "reft_intervention_type"};
  Arg<Json> reft_args{*this, "reft_args"};
  Arg<int64_t> llamapro_num_new_blocks{*this, "llamapro_num_new_blocks"};
  Arg<int64_t> llamapro_num_groups{*this, "llamapro_num_groups"};
  Arg<std::string> adapter_act{*this, "adapter_act"};
  Arg<int64_t> adapter_length{*this, "adapter_length"};
  Arg<int64_t> lisa_activated_layers{*this, "lisa_activated_layers"};
  Arg<int64_t> lisa_step_interval{*this, "lisa_step_interval"};
  Arg<int64_t> oft_rank{*this, "oft_rank"};
  Arg<int64_t> oft_block_size{*this, "oft_block_size"};
  Arg<std::vector<std::string>> oft_target{*this, "oft_target"};
  Arg<double> module_dropout{*this, "module_dropout"};
};

// By which optimizer and at which rates.
struct OptimizerArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<bool> galore_proj_quant{*this, "galore_proj_quant"};
  Arg<int64_t> galore_proj_bits{*this, "galore_proj_bits"};
  Arg<int64_t> galore_proj_group_size{*this, "galore_proj_group_size"};
  Arg<double> galore_cos_threshold{*this, "galore_cos_threshold"};
  Arg<int64_t> galore_gamma_proj{*this, "galore_gamma_proj"};
  Arg<int64_t> galore_queue_size{*this, "galore_queue_size"};
  Arg<std::string> optim{*this, "optim"};
  Arg<double> learning_rate{*this, "learning_rate"};
  Arg<std::string> lr_scheduler_type{*this, "lr_scheduler_type"};
  Arg<Json> lr_scheduler_kwargs{*this, "lr_scheduler_kwargs"};
  Arg<double> warmup_ratio{*this, "warmup_ratio"};
  Arg<double> warmup_steps{*this, "warmup_steps"};
  Arg<double> weight_decay{*this, "weight_decay"};
  Arg<double> lorap_lr_ratio{*this, "lorap_lr_ratio"};
  Arg<double> loraplus_lr_embedding{*this, "loraplus_lr_embedding"};
  Arg<double> vit_lr{*this, "vit_lr"};
  Arg<double> aligner_lr{*this, "aligner_lr"};
  Arg<std::string> optimizer{*this, "optimizer"};
  Arg<std::string> optim_args{*this, "optim_args"};
  Arg<std::vector<std::string>> optim_target_modules{*this, "optim_target_modules"};
  Arg<bool> adafactor{*this, "adafactor"};
  Arg<double> adam_beta1{*this, "adam_beta1"};
  Arg<double> adam_beta2{*this, "adam_beta2"};
  Arg<double> adam_epsilon{*this, "adam_epsilon"};
  Arg<std::string> exp_avg_dtype{*this, "exp_avg_dtype"};
  Arg<std::string> exp_avg_sq_dtype{*this, "exp_avg_sq_dtype"};
  Arg<bool> use_galore{*this, "use_galore"};
  Arg<std::vector<std::string>> galore_target_modules{*this, "galore_target_modules"};
  Arg<int64_t> galore_rank{*this, "galore_rank"};
  Arg<int64_t> galore_update_proj_gap{*this, "galore_update_proj_gap"};
  Arg<double> galore_scale{*this, "galore_scale"};
  Arg<std::string> galore_proj_type{*this, "galore_proj_type"};
  Arg<bool> galore_optim_per_parameter{*this, "galore_optim_per_parameter"};
  Arg<bool> galore_with_embedding{*this, "galore_with_embedding"};
  Arg<bool> galore_quantization{*this, "galore_quantization"};
  Arg<bool> use_apollo{*this, "use_apollo"};
  Arg<std::vector<std::string>> apollo_target{*this, "apollo_target"};
  Arg<int64_t> apollo_rank{*this, "apollo_rank"};
  Arg<int64_t> apollo_update_interval{*this, "apollo_update_interval"};
  Arg<double> apollo_scale{*this, "apollo_scale"};
  Arg<std::string> apollo_proj{*this, "apollo_proj"};
  Arg<std::string> apollo_proj_type{*this, "apollo_proj_type"};
  Arg<std::string> apollo_scale_type{*this, "apollo_scale_type"};
  Arg<bool> apollo_layerwise{*this, "apollo_layerwise"};
  Arg<bool> apollo_scale_front{*this, "apollo_scale_front"};
  Arg<bool> use_badam{*this, "use_badam"};
  Arg<std::string> badam_mode{*this, "badam_mode"};
  Arg<int64_t> badam_start_block{*this, "badam_start_block"};
  Arg<std::string> badam_switch_mode{*this, "badam_switch_mode"};
  Arg<int64_t> badam_switch_interval{*this, "badam_switch_interval"};
  Arg<double> badam_update_ratio{*this, "badam_update_ratio"};
  Arg<std::string> badam_mask_mode{*this, "badam_mask_mode"};
  Arg<int64_t> badam_verbose{*this, "badam_verbose"};
  Arg<bool> use_adam_mini{*this, "use_adam_mini"};
  Arg<bool> use_muon{*this, "use_muon"};
};

}  // namespace hone::cli
