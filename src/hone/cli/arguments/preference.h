// The options of table/preference.cpp as typed fields (arg.h).
#pragma once
#include "hone/cli/arguments/arg.h"

namespace hone::cli {

// Losses for preference pairs and for unpaired feedback.
struct PreferenceArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<std::string> rlhf_type{*this, "rlhf_type"};
  Arg<double> beta{*this, "beta"};
  Arg<std::string> ref_model{*this, "ref_model"};
  Arg<std::vector<std::string>> ref_adapters{*this, "ref_adapters"};
  Arg<std::string> ref_model_type{*this, "ref_model_type"};
  Arg<std::string> ref_model_revision{*this, "ref_model_revision"};
  Arg<int64_t> ref_model_quantization_bit{*this, "ref_model_quantization_bit"};
  Arg<std::vector<double>> loss_weights{*this, "loss_weights"};
  Arg<double> label_smoothing{*this, "label_smoothing"};
  Arg<double> rpo_alpha{*this, "rpo_alpha"};
  Arg<double> pref_bco_weight{*this, "pref_bco_weight"};
  Arg<double> ld_alpha{*this, "ld_alpha"};
  Arg<double> discopop_tau{*this, "discopop_tau"};
  Arg<double> cpo_alpha{*this, "cpo_alpha"};
  Arg<double> simpo_gamma{*this, "simpo_gamma"};
  Arg<bool> reference_free{*this, "reference_free"};
  Arg<double> desirable_weight{*this, "desirable_weight"};
  Arg<double> undesirable_weight{*this, "undesirable_weight"};
  Arg<double> center_rewards_coefficient{*this, "center_rewards_coefficient"};
  Arg<std::vector<std::string>> loss_type{*this, "loss_type"};
};

// Rewards.
struct RewardArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<std::vector<std::string>> external_plugins{*this, "external_plugins"};
  Arg<std::vector<std::string>> reward_model{*this, "reward_model"};
  Arg<std::string> reward_model_type{*this, "reward_model_type"};
  Arg<std::vector<std::string>> reward_adapters{*this, "reward_adapters"};
  Arg<std::vector<std::string>> reward_model_revision{*this, "reward_model_revision"};
  Arg<std::vector<std::string>> reward_template{*this, "reward_template"};
  Arg<std::vector<std::string>> reward_model_plugin{*this, "reward_model_plugin"};
  Arg<int64_t> reward_model_quantization_bit{*this, "reward_model_quantization_bit"};
  Arg<std::vector<std::string>> reward_funcs{*this, "reward_funcs"};
  Arg<std::vector<double>> reward_weights{*this, "reward_weights"};
  Arg<double> reward_timeout{*this, "reward_timeout"};
  Arg<bool> remote_rewards{*this, "remote_rewards"};
  Arg<std::string> code_sandbox{*this, "code_sandbox"};
  Arg<double> code_timeout{*this, "code_timeout"};
  Arg<int64_t> code_memory_limit{*this, "code_memory_limit"};
  Arg<std::string> plugin_python{*this, "plugin_python"};
  Arg<int64_t> plugin_memory_limit{*this, "plugin_memory_limit"};
  Arg<int64_t> soft_max_length{*this, "soft_max_length"};
  Arg<int64_t> soft_cache_length{*this, "soft_cache_length"};
  Arg<double> cosine_min_len_value_wrong{*this, "cosine_min_len_value_wrong"};
  Arg<double> cosine_max_len_value_wrong{*this, "cosine_max_len_value_wrong"};
  Arg<double> cosine_min_len_value_correct{*this, "cosine_min_len_value_correct"};
  Arg<double> cosine_max_len_value_correct{*this, "cosine_max_len_value_correct"};
  Arg<int64_t> cosine_max_len{*this, "cosine_max_len"};
  Arg<int64_t> repetition_n_grams{*this, "repetition_n_grams"};
  Arg<double> repetition_max_penalty{*this, "repetition_max_penalty"};
};

// Teachers.
struct DistillationArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<std::string> teacher_model{*this, "teacher_model"};
  Arg<std::vector<std::string>> teacher_adapters{*this, "teacher_adapters"};
  Arg<std::string> teacher_model_type{*this, "teacher_model_type"};
  Arg<std::string> teacher_model_revision{*this, "teacher_model_revision"};
  Arg<std::string> teacher_model_server{*this, "teacher_model_server"};
  Arg<double> teacher_timeout{*this, "teacher_timeout"};
  Arg<std::string> teacher_tag_key{*this, "teacher_tag_key"};
  Arg<std::string> teacher_logps{*this, "teacher_logps"};
  Arg<int64_t> gkd_logits_topk{*this, "gkd_logits_topk"};
  Arg<double> lmbda{*this, "lmbda"};
  Arg<bool> seq_kd{*this, "seq_kd"};
  Arg<double> sft_alpha{*this, "sft_alpha"};
};

// PPO.
struct PpoArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<int64_t> num_ppo_epochs{*this, "num_ppo_epochs"};
  Arg<int64_t> num_mini_batches{*this, "num_mini_batches"};
  Arg<int64_t> ppo_buffer_size{*this, "ppo_buffer_size"};
  Arg<int64_t> local_rollout_forward_batch_size{*this, "local_rollout_forward_batch_size"};
  Arg<std::string> value_model{*this, "value_model"};
  Arg<double> kl_coef{*this, "kl_coef"};
  Arg<std::string> kl_estimator{*this, "kl_estimator"};
  Arg<double> ppo_target{*this, "ppo_target"};
  Arg<bool> ppo_score_norm{*this, "ppo_score_norm"};
  Arg<bool> whiten_rewards{*this, "whiten_rewards"};
  Arg<double> cliprange{*this, "cliprange"};
  Arg<double> cliprange_value{*this, "cliprange_value"};
  Arg<double> vf_coef{*this, "vf_coef"};
  Arg<double> gamma{*this, "gamma"};
  Arg<double> lam{*this, "lam"};
  Arg<double> missing_eos_penalty{*this, "missing_eos_penalty"};
};

// GRPO and its variants.
struct GrpoArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<int64_t> num_generations{*this, "num_generations"};
  Arg<int64_t> num_generations_eval{*this, "num_generations_eval"};
  Arg<int64_t> generation_batch_size{*this, "generation_batch_size"};
  Arg<int64_t> steps_per_generation{*this, "steps_per_generation"};
  Arg<int64_t> num_iterations{*this, "num_iterations"};
  Arg<double> epsilon{*this, "epsilon"};
  Arg<double> epsilon_high{*this, "epsilon_high"};
  Arg<double> delta{*this, "delta"};
  Arg<std::string> importance_sampling_level{*this, "importance_sampling_level"};
  Arg<std::string> advantage_estimator{*this, "advantage_estimator"};
  Arg<std::string> scale_rewards{*this, "scale_rewards"};
  Arg<bool> kl_in_reward{*this, "kl_in_reward"};
  Arg<bool> dynamic_sample{*this, "dynamic_sample"};
  Arg<int64_t> max_resample_times{*this, "max_resample_times"};
  Arg<bool> overlong_filter{*this, "overlong_filter"};
  Arg<double> tau_pos{*this, "tau_pos"};
  Arg<double> tau_neg{*this, "tau_neg"};
  Arg<double> real_tau{*this, "real_tau"};
  Arg<double> fipo_decay_rate{*this, "fipo_decay_rate"};
  Arg<double> fipo_clip_range{*this, "fipo_clip_range"};
  Arg<bool> fipo_clip_high_only{*this, "fipo_clip_high_only"};
  Arg<double> fipo_safety_threshold{*this, "fipo_safety_threshold"};
  Arg<double> top_entropy_quantile{*this, "top_entropy_quantile"};
  Arg<bool> log_entropy{*this, "log_entropy"};
  Arg<bool> log_completions{*this, "log_completions"};
  Arg<double> off_policy_sequence_mask_delta{*this, "off_policy_sequence_mask_delta"};
  Arg<std::string> rollout_importance_sampling_mode{*this, "rollout_importance_sampling_mode"};
  Arg<double> rollout_importance_sampling_threshold{*this, "rollout_importance_sampling_threshold"};
  Arg<bool> log_rollout_offpolicy_metrics{*this, "log_rollout_offpolicy_metrics"};
  Arg<bool> async_generate{*this, "async_generate"};
  Arg<int64_t> async_max_lag{*this, "async_max_lag"};
};

// Signals besides rewards: teachers of a policy, expert rows, a synchronized reference.
struct PolicyGuidanceArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<double> teacher_kl_coef{*this, "teacher_kl_coef"};
  Arg<std::string> advantage_reweight{*this, "advantage_reweight"};
  Arg<double> rlsd_lambda{*this, "rlsd_lambda"};
  Arg<double> rlsd_reweight_clip_range{*this, "rlsd_reweight_clip_range"};
  Arg<int64_t> rlsd_lambda_warmup_steps{*this, "rlsd_lambda_warmup_steps"};
  Arg<int64_t> rlsd_lambda_decay_steps{*this, "rlsd_lambda_decay_steps"};
  Arg<bool> rlsd_negative_only{*this, "rlsd_negative_only"};
  Arg<double> sdar_loss_coef{*this, "sdar_loss_coef"};
  Arg<double> sdar_gate_beta{*this, "sdar_gate_beta"};
  Arg<std::vector<std::string>> chord_sft_dataset{*this, "chord_sft_dataset"};
  Arg<int64_t> chord_sft_per_device_train_batch_size{*this, "chord_sft_per_device_train_batch_size"};
  Arg<bool> chord_enable_phi_function{*this, "chord_enable_phi_function"};
  Arg<int64_t> chord_mu_warmup_steps{*this, "chord_mu_warmup_steps"};
  Arg<int64_t> chord_mu_decay_steps{*this, "chord_mu_decay_steps"};
  Arg<double> chord_mu_peak{*this, "chord_mu_peak"};
  Arg<double> chord_mu_valley{*this, "chord_mu_valley"};
  Arg<bool> sync_ref_model{*this, "sync_ref_model"};
  Arg<int64_t> ref_model_sync_steps{*this, "ref_model_sync_steps"};
  Arg<double> ref_model_mixup_alpha{*this, "ref_model_mixup_alpha"};
};

}  // namespace hone::cli
