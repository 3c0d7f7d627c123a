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
          {"beta", Real(0), "auto", "How strongly rewards follow log-probabilities; of orpo, the weight of the odds ratio; of grpo, that of the divergence from the reference. auto is 0.1, of simpo 2, of grpo 0.04.", factory{"pref_beta"},
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

void add_reward_models(Rows& rows) {
  add_group(rows, "Reward models", kPreference,
            {
                {"reward_model", List, "", "Models that judge answers, behind --reward_funcs."},
                {"reward_model_type", Text, "", "Family of the reward model, or lora, full, api.", factory_default{"lora"}, accepted{"its folder says what it is"}},
                {"reward_adapters", List, "", "Adapters of the reward model.", factory{"reward_model_adapters"}},
                {"reward_model_revision", List, "", "Revision of each reward model on its hub.", only_swift{}},
                {"reward_template", List, "", "Template of each reward model; none is its own.", only_swift{}},
                {"reward_model_plugin", List, "", "How a model's answer becomes a reward; there is default, its score.", only_swift{}},
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

// A teacher would change what gkd and grpo learn; the rest is about that teacher.
void add_teachers(Rows& rows) {
  constexpr std::string_view kTeacher = "distillation from a teacher is not in this version; leave it out";
  add_later_group(rows, "Distillation", kPreference, "only read together with a teacher, which is not in this version",
                  {
                      {"teacher_model", Text, "", "Teacher of a distillation.", only_swift{}, refused{kTeacher}},
                      {"teacher_model_server", Text, "", "Its server.", only_swift{}, refused{kTeacher}},
                      {"teacher_adapters", List, "", "Its adapters.", only_swift{}},
                      {"teacher_model_type", Text, "", "Its family.", only_swift{}},
                      {"teacher_model_revision", Text, "", "Its revision.", only_swift{}},
                      {"teacher_deepspeed", Text, "", "Its sharding.", only_swift{}},
                      {"teacher_tag_key", Text, "", "Column that names the teacher.", only_swift{}},
                      {"teacher_kl_coef", Real(0), "1.0", "Weight of the teacher in GRPO.", only_swift{}},
                      {"offload_teacher_model", Flag, "false", "Keep it on the host between uses.", only_swift{}},
                  });
  add_later_group(rows, "Distillation", kPreference, kLaterGkd,
                  {
                      {"lmbda", Real(0, 1), "0.5", "GKD: part of batches the student writes.", only_swift{}},
                      {"sft_alpha", Real(0), "0", "GKD: weight of the plain loss.", only_swift{}},
                      {"gkd_logits_topk", Integer(1), "", "GKD: only the k likeliest tokens.", only_swift{}},
                      {"seq_kd", Flag, "false", "GKD: the teacher writes the answers.", only_swift{}, verbs{kRlhf}},
                  });
}

void add_ppo(Rows& rows) {
  add_later_group(rows, "PPO", kPreference, kLaterPpo,
                  {
                      {"reward_model_quantization_bit", Integer(1, 8), "", "Bits of the reward model.", only_factory{}},
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

}  // namespace

void add_preference(Rows& rows) {
  add_pairs(rows);
  add_feedback(rows);
  add_reward_models(rows);
  add_teachers(rows);
  add_ppo(rows);
}

namespace {

// What would change a run is refused; what is only read beside it cannot matter.
void add_rollout_drift(Rows& rows) {
  constexpr std::string_view kDrift = "answers are written with the very weights that train, and nothing is corrected for; leave it out";
  add_later_group(rows, "GRPO", kRlhf, "only read with a rollout_importance_sampling_mode, which is refused",
                  {
                      {"rollout_importance_sampling_mode", Choice("token_truncate|token_mask|sequence_truncate|sequence_mask"), "",
                       "Correction of rollout drift.", refused{kDrift}},
                      {"rollout_importance_sampling_threshold", Real(0), "2.0", "Its bound."},
                      {"log_rollout_offpolicy_metrics", Flag, "false", "Log the drift.", accepted{"answers are written with the very weights that train"}},
                  });
  add_later_group(rows, "GRPO", kRlhf, "only read together with --sync_ref_model, which is not in this version",
                  {
                      {"sync_ref_model", Flag, "false", "Move the reference along.", refused{"a reference that moves along is not in this version; leave it out"}},
                      {"ref_model_sync_steps", Integer(1), "512", "Every N steps."},
                      {"ref_model_mixup_alpha", Real(0, 1), "0.6", "By this part."},
                  });
}

void add_rollout_server(Rows& rows) {
  add_later_group(rows, "GRPO", kRlhf, "only read together with a rollout server; answers are written in the processes that train",
                  {
                      {"vllm_server_pass_dataset", Flag, "false", "Columns to the rollout server."},
                      {"vllm_server_host", List, "", "Rollout server."},
                      {"vllm_server_port", List, "8000", "Its port."},
                      {"vllm_server_base_url", List, "", "Its address."},
                      {"vllm_server_timeout", Real(0), "240", "Seconds to wait."},
                      {"vllm_server_group_port", List, "51216", "Port of weight updates."},
                      {"async_generate", Flag, "false", "Generate with the previous weights meanwhile.",
                       refused{"answers are always written with the newest weights; leave it out"}},
                      {"offload_optimizer", Flag, "false", "Optimizer to the host while generating.",
                       accepted{"its state stays where it is; --deepspeed zero2_offload keeps it on the host"}},
                  });
}

}  // namespace

void add_grpo(Rows& rows) {
  add_group(
      rows, "GRPO", kRlhf,
      {
          {"num_generations", Integer(1), "8", "Answers to each prompt, which are compared with each other."},
          {"num_generations_eval", Integer(1), "", "The same at evaluation; none is as many."},
          {"generation_batch_size", Integer(1), "auto", "Answers of a rollout, over all processes; auto is those of one update."},
          {"steps_per_generation", Integer(1), "auto", "Batches that each process makes of a rollout; auto is --gradient_accumulation_steps."},
          {"num_iterations", Integer(1), "1", "How often the answers of one rollout are trained on."},
          {"reward_funcs", List, "", "What answers are worth: accuracy, format, react_format, cosine, repetition, soft_overlong, or addresses of your own rewards (http://127.0.0.1:9000/score)."},
          {"reward_weights", List, "", "Their weights, those of reward models behind; none is 1 each."},
          {"reward_timeout", Real(0), "60", "Seconds that a reward at an address may take."},
          {"remote_rewards", Flag, "false", "Rewards may lie on other machines, which prompts and answers are sent to."},
          {"epsilon", Real(0), "0.2", "How far a ratio may fall below 1 before it is clipped."},
          {"epsilon_high", Real(0), "auto", "How far it may rise above 1; auto is --epsilon. Of the loss cispo, its bound itself."},
          {"delta", Real(0), "", "Bound of the ratio that is not clipped; none is no bound."},
          {"importance_sampling_level", Choice("token|sequence|sequence_token"), "token", "What has a ratio: each token (GRPO), or each answer (GSPO) with gradients by answer or by token."},
          {"advantage_estimator", Choice("grpo|rloo|reinforce_plus_plus"), "grpo", "How rewards are compared."},
          {"scale_rewards", Choice("group|none|batch|gdpo"), "auto", "Whose deviation advantages are divided by; auto is group, of rloo none, of reinforce_plus_plus batch."},
          {"kl_in_reward", Flag, "auto", "The divergence from the reference is taken off the reward instead of added to the loss; auto is false for grpo only."},
          {"dynamic_sample", Flag, "false", "Replace groups whose rewards are all alike (DAPO)."},
          {"max_resample_times", Integer(1), "3", "Draws of other prompts for that."},
          {"overlong_filter", Flag, "false", "No loss on answers that were cut off."},
          {"soft_max_length", Integer(1), "auto", "soft_overlong: longest answer; auto is --max_completion_length."},
          {"soft_cache_length", Integer(1), "", "soft_overlong: over so many tokens before it the penalty grows."},
          {"cosine_min_len_value_wrong", Real(), "-0.5", "cosine: a wrong answer of no length."},
          {"cosine_max_len_value_wrong", Real(), "0.0", "cosine: a wrong answer of full length."},
          {"cosine_min_len_value_correct", Real(), "1.0", "cosine: a right answer of no length."},
          {"cosine_max_len_value_correct", Real(), "0.5", "cosine: a right answer of full length."},
          {"cosine_max_len", Integer(1), "auto", "cosine: full length; auto is --max_completion_length."},
          {"repetition_n_grams", Integer(1), "3", "repetition: words that are looked at together."},
          {"repetition_max_penalty", Real(), "-1.0", "repetition: of an answer that only repeats."},
          {"tau_pos", Real(), "1.0", "Loss sapo: temperature for good answers."},
          {"tau_neg", Real(), "1.05", "Loss sapo: temperature for others."},
          {"real_tau", Real(), "0.5", "Loss real: temperature."},
          {"fipo_decay_rate", Real(), "32", "Loss fipo: tokens after which what follows counts half."},
          {"fipo_clip_range", Real(), "0.2", "Loss fipo: how far weights leave 1; 0 is any."},
          {"fipo_clip_high_only", Flag, "true", "Loss fipo: weights do not fall below 1."},
          {"fipo_safety_threshold", Real(), "4.0", "Loss fipo: ratios of bad answers above this weigh no more than 1."},
          {"top_entropy_quantile", Real(0, 1), "1.0", "Only this part of the tokens trains, the most uncertain ones."},
          {"log_entropy", Flag, "false", "Log how uncertain answers were."},
          {"log_completions", Flag, "false", "Write prompts, answers, rewards and advantages to completions.jsonl."},
          {"off_policy_sequence_mask_delta", Real(0), "", "Leave out bad answers that the model has moved this far away from since; none keeps all."},
          {"use_vllm", Flag, "false", "Write answers by an engine.", accepted{"answers are always written by hone's engine"}},
          {"vllm_mode", Choice("colocate|server"), "", "Where it runs: in the processes that train; server is refused."},
          {"sleep_level", Integer(0, 2), "0", "Above 0 the engine gives its memory back while the model trains, as it always does under ZeRO 3 and FSDP."},
          {"move_model_batches", Integer(1), "", "Parts of a weight update.", accepted{"weights are shared, not moved"}},
          {"enable_flattened_weight_sync", Flag, "true", "One buffer per update.", accepted{"weights are shared, not moved"}},
          {"offload_model", Flag, "false", "Weights to the host while generating.", accepted{"the engine writes with the weights that train; there are no second ones"}},
      });
  add_rollout_drift(rows);
  add_rollout_server(rows);
}

}  // namespace hone::cli::table
