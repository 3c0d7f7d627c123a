// Preference and reinforcement methods.
#include "hone/cli/table.h"

namespace hone::cli::table {
using namespace note;

namespace {

constexpr Verbs kPreference = kRlhf | kTrain;

// Pairs of answers, and what all methods share.
void add_pairs(Rows& rows) {
  add_group(
      rows, "Preference", kPreference,
      {
          {"rlhf_type", Choice("dpo|orpo|simpo|kto|cpo|rm|ppo|grpo|gkd"), "dpo", "Method of rlhf.", only_swift{}},
          {"beta", Real(0), "auto", "How strongly rewards follow log-probabilities; of orpo, the weight of the odds ratio. auto is 0.1, of simpo 2.", factory{"pref_beta"},
           factory_default{"0.1"}},
          {"ref_model", Text, "", "Model to compare with; none is what the run begins with, which costs no memory with LoRA."},
          {"ref_adapters", List, "", "Adapter that belongs to the reference, not to what trains.", factory{"ref_model_adapters"}},
          {"ref_model_type", Text, "", "Family of the reference.", only_swift{}, accepted{"its config.json says it"}},
          {"ref_model_revision", Text, "", "Revision of the reference on its hub.", only_swift{}},
          {"ref_model_quantization_bit", Integer(4, 8), "", "Bits of the reference's weights: 4 or 8; none keeps them as they are.", only_factory{}},
          {"loss_weights", List, "", "A weight for each of several --loss_type, which are added up (MPO); none is 1 each.", only_swift{}},
          {"label_smoothing", Real(0, 1), "0", "Part of the labels that is taken to be wrong.", factory{"dpo_label_smoothing"}},
          {"rpo_alpha", Real(0), "", "Adds so many times the chosen answers' own loss.", factory{"pref_ftx"}, factory_default{"0"}},
          {"pref_bco_weight", Real(0), "0", "Mixes in the BCO loss with this weight.", only_factory{}},
          {"ld_alpha", Real(0), "", "Weight of tokens beyond the length of the shorter answer; none is 1."},
          {"discopop_tau", Real(0), "0.05", "Temperature of the loss discopop.", only_swift{}},
          {"cpo_alpha", Real(0), "1.0", "cpo and simpo: adds so many times the chosen answers' own loss.", only_swift{}},
          {"simpo_gamma", Real(0), "1.0", "Margin that the loss simpo asks for.", factory_default{"0.5"}},
          {"reference_free", Flag, "false", "Compare with no reference: its log-probabilities count as zero.", only_swift{}},
      });
}

// Answers that are good or bad by themselves, and reward models.
void add_feedback(Rows& rows) {
  add_group(rows, "Preference", kPreference,
            {
                {"desirable_weight", Real(0), "1.0", "kto: weight of the losses of good answers.", factory{"kto_chosen_weight"}},
                {"undesirable_weight", Real(0), "1.0", "kto: weight of the losses of bad answers.", factory{"kto_rejected_weight"}},
                {"center_rewards_coefficient", Real(0), "", "rm: adds so many times the square of a pair's summed scores, which keeps scores near zero.", only_swift{}},
            });
}

}  // namespace

void add_preference(Rows& rows) {
  add_pairs(rows);
  add_feedback(rows);
  add_later_group(
      rows, "Preference", kPreference, "only read by preference and reinforcement training, which is not in this version",
      {
          {"reward_model", List, "", "Reward model."},
          {"reward_model_type", Text, "", "Its family, or lora, full, api.", factory_default{"lora"}},
          {"reward_adapters", List, "", "Its adapters.", factory{"reward_model_adapters"}},
          {"reward_model_revision", List, "", "Its revision.", only_swift{}},
          {"reward_model_quantization_bit", Integer(1, 8), "", "Its bits.", only_factory{}},
          {"reward_template", List, "", "Its template.", only_swift{}},
          {"reward_model_plugin", List, "", "How its answer becomes a reward.", only_swift{}},
          {"teacher_model", Text, "", "Teacher of a distillation.", only_swift{}},
          {"teacher_adapters", List, "", "Its adapters.", only_swift{}},
          {"teacher_model_type", Text, "", "Its family.", only_swift{}},
          {"teacher_model_revision", Text, "", "Its revision.", only_swift{}},
          {"teacher_model_server", Text, "", "Its server.", only_swift{}},
          {"teacher_deepspeed", Text, "", "Its sharding.", only_swift{}},
          {"teacher_tag_key", Text, "", "Column that names the teacher.", only_swift{}},
          {"teacher_kl_coef", Real(0), "1.0", "Weight of the teacher in GRPO.", only_swift{}},
          {"offload_teacher_model", Flag, "false", "Keep it on the host between uses.", only_swift{}},
          {"lmbda", Real(0, 1), "0.5", "GKD: part of batches the student writes.", only_swift{}},
          {"sft_alpha", Real(0), "0", "GKD: weight of the plain loss.", only_swift{}},
          {"gkd_logits_topk", Integer(1), "", "GKD: only the k likeliest tokens.", only_swift{}},
          {"num_ppo_epochs", Integer(1), "4", "PPO.", factory{"ppo_epochs"}},
          {"ppo_buffer_size", Integer(1), "1", "PPO.", only_factory{}},
          {"ppo_target", Real(0), "6.0", "PPO.", only_factory{}},
          {"ppo_score_norm", Flag, "false", "PPO.", only_factory{}},
          {"whiten_rewards", Flag, "false", "PPO.", factory{"ppo_whiten_rewards"}},
          {"kl_coef", Real(0), "0.05", "PPO.", only_swift{}},
          {"cliprange", Real(0), "0.2", "PPO.", only_swift{}},
          {"vf_coef", Real(0), "0.1", "PPO.", only_swift{}},
          {"cliprange_value", Real(0), "0.2", "PPO.", only_swift{}},
          {"gamma", Real(0, 1), "1.0", "PPO.", only_swift{}},
          {"lam", Real(0, 1), "0.95", "PPO.", only_swift{}},
          {"num_mini_batches", Integer(1), "1", "PPO.", only_swift{}},
          {"local_rollout_forward_batch_size", Integer(1), "64", "PPO.", only_swift{}},
          {"num_sample_generations", Integer(0), "10", "PPO.", only_swift{}},
          {"missing_eos_penalty", Real(0), "", "PPO.", only_swift{}},
      });
}

void add_grpo(Rows& rows) {
  add_later_group(
      rows, "GRPO", kRlhf, "only read by reinforcement training, which is not in this version",
      {
          {"num_generations", Integer(1), "8", "Answers per prompt."},
          {"num_generations_eval", Integer(1), "", "The same at evaluation."},
          {"generation_batch_size", Integer(1), "auto", "Answers per rollout."},
          {"steps_per_generation", Integer(1), "auto", "Micro-batches per rollout."},
          {"num_iterations", Integer(1), "1", "Uses of one rollout."},
          {"reward_funcs", List, "", "Rewards: accuracy, format, cosine, repetition, soft_overlong, react_format."},
          {"reward_weights", List, "", "Their weights."},
          {"epsilon", Real(0), "0.2", "Clip below."},
          {"epsilon_high", Real(0), "auto", "Clip above."},
          {"delta", Real(0), "", "Cap of the unclipped ratio."},
          {"importance_sampling_level", Choice("token|sequence|sequence_token"), "token", "Unit of the ratio."},
          {"advantage_estimator", Choice("grpo|rloo|reinforce_plus_plus"), "grpo", "Advantage."},
          {"scale_rewards", Choice("group|none|batch|gdpo"), "auto", "Divisor of rewards."},
          {"kl_in_reward", Flag, "auto", "Penalty in the reward."},
          {"dynamic_sample", Flag, "false", "Drop groups with equal rewards."},
          {"max_resample_times", Integer(1), "3", "Draws for a full batch."},
          {"overlong_filter", Flag, "false", "No loss on cut answers."},
          {"soft_max_length", Integer(1), "auto", "soft_overlong."},
          {"soft_cache_length", Integer(1), "", "soft_overlong."},
          {"cosine_min_len_value_wrong", Real(), "-0.5", "cosine."},
          {"cosine_max_len_value_wrong", Real(), "0.0", "cosine."},
          {"cosine_min_len_value_correct", Real(), "1.0", "cosine."},
          {"cosine_max_len_value_correct", Real(), "0.5", "cosine."},
          {"cosine_max_len", Integer(1), "auto", "cosine."},
          {"repetition_n_grams", Integer(1), "3", "repetition."},
          {"repetition_max_penalty", Real(), "-1.0", "repetition."},
          {"tau_pos", Real(), "1.0", "sapo."},
          {"tau_neg", Real(), "1.05", "sapo."},
          {"real_tau", Real(), "0.5", "real."},
          {"fipo_decay_rate", Real(), "32", "fipo."},
          {"fipo_clip_range", Real(), "0.2", "fipo."},
          {"fipo_clip_high_only", Flag, "true", "fipo."},
          {"fipo_safety_threshold", Real(), "4.0", "fipo."},
          {"top_entropy_quantile", Real(0, 1), "1.0", "Train only tokens this uncertain."},
          {"log_entropy", Flag, "false", "Log it."},
          {"log_completions", Flag, "false", "Write completions.jsonl."},
          {"sync_ref_model", Flag, "false", "Move the reference along."},
          {"ref_model_sync_steps", Integer(1), "512", "Every N steps."},
          {"ref_model_mixup_alpha", Real(0, 1), "0.6", "By this part."},
          {"rollout_importance_sampling_mode", Choice("token_truncate|token_mask|sequence_truncate|sequence_mask"), "",
           "Correction of rollout drift."},
          {"rollout_importance_sampling_threshold", Real(0), "2.0", "Its bound."},
          {"log_rollout_offpolicy_metrics", Flag, "false", "Log the drift."},
          {"off_policy_sequence_mask_delta", Real(0), "", "Leave out answers that drifted this far."},
          {"completion_length_limit_scope", Choice("per_round|total"), "per_round", "What the limit counts."},
          {"vllm_server_pass_dataset", Flag, "false", "Columns to the rollout server."},
          {"use_vllm", Flag, "false", "Generate by an engine.", accepted{"rollouts always use hone's engine"}},
          {"vllm_mode", Choice("colocate|server"), "", "Where it runs."},
          {"vllm_server_host", List, "", "Rollout server."},
          {"vllm_server_port", List, "8000", "Its port."},
          {"vllm_server_base_url", List, "", "Its address."},
          {"vllm_server_timeout", Real(0), "240", "Seconds to wait."},
          {"vllm_server_group_port", List, "51216", "Port of weight updates."},
          {"async_generate", Flag, "false", "Generate with the previous weights meanwhile."},
          {"sleep_level", Integer(0, 2), "0", "Engine memory given back while training."},
          {"offload_model", Flag, "false", "Weights to the host while generating."},
          {"offload_optimizer", Flag, "false", "Optimizer to the host while generating."},
          {"move_model_batches", Integer(1), "", "Parts of a weight update.", accepted{"weights are shared, not moved"}},
          {"enable_flattened_weight_sync", Flag, "true", "One buffer per update.", accepted{"weights are shared, not moved"}},
      });
}

}  // namespace hone::cli::table
