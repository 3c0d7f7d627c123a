// Preference and reinforcement methods.
#include "hone/cli/table.h"

namespace hone::cli::table {
using namespace note;

namespace {

constexpr Verbs kPreference = kRlhf | kTrain;

// Preference pairs, and options common to all methods.
void add_pairs(Rows& rows) {
  add_group(
      rows, "Preference", kPreference,
      {
          {"rlhf_type", Choice("dpo|orpo|simpo|kto|cpo|rm|ppo|grpo|gkd"), "dpo", "Method of rlhf.", only_swift{}},
          {"beta", Real(0), "auto",
           "KL coefficient beta; for orpo, the weight of the odds ratio; for gkd 0 is forward KL, 1 reverse KL. auto is 0.1, for "
           "simpo "
           "2, for grpo 0.04, for gkd 0.5.",
           factory{"pref_beta"}, factory_default{"0.1"}},
          {"ref_model", Text, "", "Reference model; none is the initial model, which needs no extra memory with LoRA."},
          {"ref_adapters", List, "", "Adapter of the reference, not of the model that trains.", factory{"ref_model_adapters"}},
          {"ref_model_type", Text, "", "Family of the reference, compared with its config.json.", only_swift{}},
          {"ref_model_revision", Text, "", "Revision of the reference on its hub.", only_swift{}},
          {"ref_model_quantization_bit", Integer(4, 8), "",
           "Bits of the reference's weights: 4 or 8; none does not quantize them.", only_factory{}},
          {"loss_weights", List, "", "Weights of several --loss_type values, which are summed (MPO); none is 1 each.",
           only_swift{}},
          {"label_smoothing", Real(0, 1), "0", "Label smoothing: assumed fraction of wrong labels.",
           factory{"dpo_label_smoothing"}},
          {"rpo_alpha", Real(0), "", "Weight of the SFT loss on the chosen completions.", factory{"pref_ftx"},
           factory_default{"0"}},
          {"pref_bco_weight", Real(0), "0", "Weight of the BCO loss.", only_factory{}},
          {"ld_alpha", Real(0), "", "LD-DPO alpha: weight of tokens beyond the length of the shorter completion; none is 1."},
          {"discopop_tau", Real(0), "0.05", "Temperature of the loss discopop.", only_swift{}},
          {"cpo_alpha", Real(0), "1.0", "cpo and simpo: weight of the SFT loss on the chosen completions.", only_swift{}},
          {"simpo_gamma", Real(0), "1.0", "Target margin of the simpo loss (gamma).", factory_default{"0.5"}},
          {"reference_free", Flag, "false", "Reference-free: reference log-probabilities count as zero.", only_swift{}},
      });
}

void add_reward_models(Rows& rows) {
  add_group(rows, "Reward models", kPreference,
            {
                {"reward_model", List, "", "Reward models, in addition to --reward_funcs."},
                {"reward_model_type", Text, "",
                 "Type of reward_model: lora, an adapter of the model that trains; full, a model; api, a URL. ms-swift's model "
                 "family is read from the folder.",
                 factory_default{"lora"}},
                {"reward_adapters", List, "", "Adapters of the reward model.", factory{"reward_model_adapters"}},
                {"reward_model_revision", List, "", "Revision of each reward model on its hub.", only_swift{}},
                {"reward_template", List, "", "Template of each reward model; none is its own.", only_swift{}},
                {"reward_model_plugin", List, "",
                 "Of each reward model: default, its score; genrm, a chat model that is asked for one.", only_swift{}},
            });
}

// Unpaired feedback (KTO) and reward models.
void add_feedback(Rows& rows) {
  add_group(
      rows, "Preference", kPreference,
      {
          {"desirable_weight", Real(0), "1.0", "kto: weight of the loss of desirable completions.", factory{"kto_chosen_weight"}},
          {"undesirable_weight", Real(0), "1.0", "kto: weight of the loss of undesirable completions.",
           factory{"kto_rejected_weight"}},
          {"center_rewards_coefficient", Real(0), "",
           "rm: weight of the squared sum of a pair's scores, which keeps scores near zero.", only_swift{}},
      });
}

void add_teachers(Rows& rows) {
  add_group(
      rows, "Distillation", kRlhf,
      {
          {"teacher_model", Text, "",
           "gkd and grpo: teacher, a model with the student's vocabulary; with adapters, the student's own base needs no extra "
           "memory.",
           only_swift{}},
          {"teacher_adapters", List, "", "Adapters of the teacher.", only_swift{}},
          {"teacher_model_revision", Text, "", "Revision of the teacher on its hub.", only_swift{}},
          {"teacher_model_server", Text, "",
           "gkd and grpo: URL of a teacher server that returns prompt_logprobs (http://127.0.0.1:8000), or a list of several: "
           "[{\"url\": …, \"tags\": […]}, …].",
           only_swift{}},
          {"teacher_tag_key", Text, "dataset",
           "Column with the tag that assigns rows to teachers; none uses the row's dataset as the tag.", only_swift{}},
          {"teacher_timeout", Real(0), "240", "Timeout of the teacher's server in seconds.", only_swift{}},
          {"teacher_logps", Text, "",
           "gkd: cache folder of the teacher's top-k log-probabilities; alone, it replaces the teacher.", only_swift{}},
          {"gkd_logits_topk", Integer(1), "", "gkd: compare only the teacher's k most likely tokens; none is all.", only_swift{}},
          {"lmbda", Real(0, 1), "0.5", "gkd: share of batches whose completions the student generates.", only_swift{}},
          {"seq_kd", Flag, "false", "gkd: the teacher generates the completions of the other batches.", only_swift{}},
          {"sft_alpha", Real(0), "0", "gkd: weight of the SFT loss on rows of the dataset.", only_swift{}},
          {"teacher_model_type", Text, "", "Family of the teacher, compared with its config.json.", only_swift{}},
          {"teacher_deepspeed", Text, "", "Sharding of the teacher.", only_swift{}, no_effect{"it is sharded like the student"}},
          {"offload_teacher_model", Flag, "false", "Keep the teacher in host memory between uses.", only_swift{},
           no_effect{"it stays on the device, sharded with ZeRO-3 and FSDP"}},
      });
}

void add_ppo(Rows& rows) {
  add_group(
      rows, "PPO", kPreference,
      {
          {"num_ppo_epochs", Integer(1), "4", "Passes over the completions of each rollout.", factory{"ppo_epochs"}},
          {"num_mini_batches", Integer(1), "1",
           "Updates in each of these passes; a rollout is --gradient_accumulation_steps batches.", only_swift{}},
          {"ppo_buffer_size", Integer(1), "1", "Updates per pass; the rollout is larger by this factor.", only_factory{}},
          {"value_model", Text, "",
           "Critic: a model's folder; reward, initialized from the reward model; or policy, a head on the policy's hidden "
           "states. none is reward if there is a reward model, else policy.",
           only_swift{}},
          {"kl_coef", Real(0), "0.05", "Weight of the KL divergence from the reference; 0 needs no reference.", only_swift{}},
          {"kl_estimator", Choice("k1|k3"), "k1", "Estimator of the KL divergence in rewards.", only_swift{}},
          {"ppo_target", Real(0), "", "Target KL divergence, to which --kl_coef is adapted; none keeps it fixed.",
           factory_default{"6.0"}},
          {"ppo_score_norm", Flag, "false", "Normalize scores by their running mean and standard deviation."},
          {"whiten_rewards", Flag, "false", "Whiten the rewards of tokens.", factory{"ppo_whiten_rewards"}},
          {"cliprange", Real(0), "0.2", "Clipping range of the policy's ratio.", only_swift{}},
          {"cliprange_value", Real(0), "0.2", "Clipping range of values.", only_swift{}},
          {"vf_coef", Real(0), "0.1", "Weight of the value loss.", only_swift{}},
          {"gamma", Real(0, 1), "1.0", "Discount of later rewards.", only_swift{}},
          {"lam", Real(0, 1), "0.95", "Lambda of generalized advantage estimation.", only_swift{}},
          {"missing_eos_penalty", Real(0), "", "Penalty on the score of a completion without an end token; none is no penalty.",
           only_swift{}},
          {"reward_model_quantization_bit", Integer(4, 8), "",
           "Bits of the reward model's weights: 4 or 8; none does not quantize them.", only_factory{}},
          {"local_rollout_forward_batch_size", Integer(1), "",
           "Completions per forward pass without gradients; none is --per_device_train_batch_size.", only_swift{}},
          {"num_sample_generations", Integer(0), "10", "Samples that are printed.", only_swift{},
           no_effect{"--log_completions writes all of them"}},
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

void add_rollout_drift(Rows& rows) {
  add_group(rows, "GRPO", kRlhf,
            {
                {"rollout_importance_sampling_mode", Choice("token_truncate|token_mask|sequence_truncate|sequence_mask"), "",
                 "Importance sampling between rollout engine and trainer: ratios of tokens or completions are truncated or "
                 "masked; none applies no correction."},
                {"rollout_importance_sampling_threshold", Real(0), "2.0", "Bound of the ratio."},
                {"log_rollout_offpolicy_metrics", Flag, "false",
                 "Log the off-policy gap between rollout engine and trainer: rollout_correction/…"},
            });
}

void add_rollout_server(Rows& rows) {
  add_group(rows, "GRPO", kRlhf,
            {
                {"vllm_server_host", List, "", "Hosts of rollout servers (`hone rollout`)."},
                {"vllm_server_port", List, "8000", "Their ports, or one for all."},
                {"vllm_server_base_url", List, "", "Their addresses instead: http://host:port …"},
                {"vllm_server_timeout", Real(0), "240", "Seconds to wait for a rollout server that does not respond."},
                {"vllm_server_type", Choice("hone|openai"), "hone",
                 "Type of the servers: hone, whose weights the run updates; openai, any OpenAI-compatible ones, without weight "
                 "updates."},
                {"vllm_server_api_key", Text, "", "API key of the servers.", environment{"OPENAI_API_KEY"}},
                {"async_generate", Flag, "false", "Generate the next rollout on the servers while this one trains."},
                {"async_max_lag", Integer(0, 1), "1", "Rollouts that generation may be ahead of training; 0 is none."},
                {"vllm_server_pass_dataset", Flag, "false", "Columns for rewards and turns.",
                 always_on{"true", "rewards and schedulers run in the training processes, which have the columns"}},
                {"vllm_server_group_port", List, "51216", "Port of weight updates.",
                 no_effect{"weights are sent over the server's own port"}},
                {"offload_optimizer", Flag, "false", "Optimizer to the host while generating.",
                 no_effect{"its state is not moved; --deepspeed zero2_offload keeps it on the host"}},
            });
}

}  // namespace

void add_grpo(Rows& rows) {
  add_group(
      rows, "GRPO", kRlhf,
      {
          {"num_generations", Integer(1), "8", "Group size: completions per prompt."},
          {"num_generations_eval", Integer(1), "", "The same at evaluation; none is --num_generations."},
          {"generation_batch_size", Integer(1), "auto",
           "Completions per rollout over all processes; auto is those of one update."},
          {"steps_per_generation", Integer(1), "auto", "Batches per process and rollout; auto is --gradient_accumulation_steps."},
          {"num_iterations", Integer(1), "1", "Optimizer passes over each rollout (mu)."},
          {"reward_funcs", List, "",
           "Reward functions: accuracy, format, react_format, toolbench, cosine, repetition, soft_overlong, code, names of "
           "--external_plugins, or URLs of your own (http://127.0.0.1:9000/score)."},
          {"reward_weights", List, "", "Reward weights, those of reward models last; none is 1 each."},
          {"reward_timeout", Real(0), "60", "Timeout of an HTTP reward or a plugin's call in seconds.",
           verbs{kTraining | kSample}},
          {"remote_rewards", Flag, "false", "Allow reward URLs on other machines; prompts and completions are sent there.",
           verbs{kRlhf | kSample | kTrain}},
          {"code_sandbox", Choice("none|bubblewrap"), "none",
           "Sandbox for the programs of the reward code and of pass@k: none refuses to run them, bubblewrap runs them without "
           "network and "
           "files.",
           only_swift{}, verbs{kRlhf | kSample | kEval}},
          {"code_timeout", Real(0.1), "10", "Seconds that a program may take.", only_swift{}, verbs{kRlhf | kSample | kEval}},
          {"code_memory_limit", Bytes, "512MB", "Memory that a program may use.", only_swift{}, verbs{kRlhf | kSample | kEval}},
          {"plugin_python", Text, "python3",
           "Interpreter of --external_plugins, with the packages that they need; for eval, of langdetect and nltk, which ifeval "
           "uses.",
           only_swift{}, verbs{kTraining | kSample | kEval}},
          {"plugin_memory_limit", Bytes, "", "Memory that the worker of --external_plugins may use; none is no limit.",
           only_swift{}, verbs{kTraining | kSample}},
          {"epsilon", Real(0), "0.2", "Lower clipping range of the ratio (epsilon)."},
          {"epsilon_high", Real(0), "auto", "Upper clipping range; auto is --epsilon. For cispo, the bound itself."},
          {"delta", Real(0), "", "Upper bound of the unclipped ratio (delta); none is no bound."},
          {"importance_sampling_level", Choice("token|sequence|sequence_token"), "token",
           "Importance-sampling level: token (GRPO) or sequence (GSPO), with sequence or token gradients."},
          {"advantage_estimator", Choice("grpo|rloo|reinforce_plus_plus"), "grpo", "Advantage estimator."},
          {"scale_rewards", Choice("group|none|batch|gdpo"), "auto",
           "Reward scaling: standard deviation that divides advantages; auto is group, for rloo none, for reinforce_plus_plus "
           "batch."},
          {"kl_in_reward", Flag, "auto",
           "Subtract the KL divergence from the reward instead of adding it to the loss; auto is false for grpo only."},
          {"dynamic_sample", Flag, "false", "Dynamic sampling (DAPO): resample groups whose rewards have zero variance."},
          {"max_resample_times", Integer(1), "3", "Maximum number of resamples."},
          {"overlong_filter", Flag, "false", "Mask the loss of truncated completions."},
          {"soft_max_length", Integer(1), "auto", "soft_overlong: maximum completion length; auto is --max_completion_length."},
          {"soft_cache_length", Integer(1), "",
           "soft_overlong: number of tokens before that length over which the penalty grows."},
          {"cosine_min_len_value_wrong", Real(), "-0.5", "cosine: reward of a wrong completion of length 0."},
          {"cosine_max_len_value_wrong", Real(), "0.0", "cosine: reward of a wrong completion of full length."},
          {"cosine_min_len_value_correct", Real(), "1.0", "cosine: reward of a correct completion of length 0."},
          {"cosine_max_len_value_correct", Real(), "0.5", "cosine: reward of a correct completion of full length."},
          {"cosine_max_len", Integer(1), "auto", "cosine: full length; auto is --max_completion_length."},
          {"repetition_n_grams", Integer(1), "3", "repetition: n of the n-grams."},
          {"repetition_max_penalty", Real(), "-1.0", "repetition: penalty of a completion that only repeats."},
          {"tau_pos", Real(), "1.0", "Loss sapo: temperature for positive advantages."},
          {"tau_neg", Real(), "1.05", "Loss sapo: temperature for negative advantages."},
          {"real_tau", Real(), "0.5", "Loss real: temperature."},
          {"fipo_decay_rate", Real(), "32", "Loss fipo: half-life in tokens of later terms."},
          {"fipo_clip_range", Real(), "0.2", "Loss fipo: clipping range of the weights around 1; 0 is no limit."},
          {"fipo_clip_high_only", Flag, "true", "Loss fipo: weights do not fall below 1."},
          {"fipo_safety_threshold", Real(), "4.0",
           "Loss fipo: ratio of completions with a negative advantage above which the weight is at most 1."},
          {"top_entropy_quantile", Real(0, 1), "1.0", "Train only on this fraction of tokens, those with the highest entropy."},
          {"log_entropy", Flag, "false", "Log the entropy of completions."},
          {"log_completions", Flag, "false", "Log prompts, completions, rewards and advantages to completions.jsonl."},
          {"off_policy_sequence_mask_delta", Real(0), "",
           "Off-policy mask: ignore completions with a negative advantage and a KL above this value; none keeps all."},
          {"use_vllm", Flag, "false", "Generate with a batching engine.",
           always_on{"true", "completions always come from one, hone's own"}},
          {"vllm_mode", Choice("colocate|server"), "",
           "Rollout mode: colocate generates in the training processes, server on rollout servers."},
          {"sleep_level", Integer(0, 2), "0",
           "Sleep level: above 0 the engine frees its memory while the model trains, as it always does with ZeRO-3 and FSDP."},
          {"move_model_batches", Integer(1), "", "Parts of a weight update.",
           no_effect{"weights are shared, or sent to servers in parts of 256 MB"}},
          {"enable_flattened_weight_sync", Flag, "true", "Weights in few large buffers.",
           always_on{"true", "weights are shared, or sent to servers in parts of 256 MB"}},
          {"offload_model", Flag, "false", "Weights to the host while generating.",
           no_effect{"the engine generates with the weights that train; there is no second copy"}},
      });
  add_rollout_drift(rows);
  add_rollout_server(rows);
}

}  // namespace hone::cli::table
