#include "hone/cli/common_options.h"

namespace hone::cli {
namespace {

using Names = std::vector<std::string_view>;

Names with(Names names, std::initializer_list<std::string_view> more) {
  names.insert(names.end(), more);
  return names;
}

Names training_names(Verbs verb) {
  Names names{"model", "dataset"};
  if (verb == kRlhf) names = with(names, {"rlhf_type", "beta", "reward_funcs"});
  if (verb == kTrain) names = with(names, {"stage", "template"});
  return with(names, {"tuner_type", "lora_rank", "learning_rate", "num_train_epochs", "per_device_train_batch_size",
                      "gradient_accumulation_steps", "max_length", "torch_dtype", "split_dataset_ratio", "logging_steps",
                      "save_steps", "output_dir", "resume_from_checkpoint", "deepspeed"});
}

std::string training_example(FrontEnd front_end, Verbs verb) {
  const std::string program = front_end == FrontEnd::swift ? "swift" : "hone";
  if (verb == kTrain)
    return "llamafactory-cli train --stage sft --do_train true --model_name_or_path Qwen/Qwen2.5-0.5B-Instruct --dataset "
           "alpaca_en_demo --template qwen --output_dir output/first";
  if (verb == kRlhf)
    return program + " rlhf --rlhf_type dpo --model Qwen/Qwen2.5-0.5B-Instruct --dataset pairs.jsonl --output_dir output/first";
  return fmt::format(
      "{} {} --model Qwen/Qwen2.5-0.5B-Instruct --dataset train.jsonl --learning_rate 1e-4 --num_train_epochs 3 --output_dir "
      "output/first",
      program, verb == kPt ? "pt" : "sft");
}

}  // namespace

CommonOptions common_options(FrontEnd front_end, Verbs verb) {
  const std::string program = front_end == FrontEnd::swift ? "swift" : "hone";
  if (verb & kTraining) return {training_names(verb), training_example(front_end, verb)};
  if (verb == kInfer)
    return {{"model", "adapters", "val_dataset", "system", "template", "max_new_tokens", "temperature", "top_p", "stream",
             "result_path", "torch_dtype", "infer_backend", "max_batch_size", "merge_lora"},
            program + " infer --adapters output/first/last --temperature 0"};
  if (verb == kDeploy)
    return {
        {"model", "adapters", "host", "port", "api_key", "served_model_name", "max_new_tokens", "temperature",
         "vllm_max_model_len", "vllm_max_num_seqs", "vllm_gpu_memory_utilization", "vllm_tensor_parallel_size", "torch_dtype"},
        program + " deploy --model Qwen/Qwen2.5-0.5B-Instruct --port 8000"};
  if (verb == kServeTinker)
    return {{"model", "host", "port", "api_key", "api_keys", "tinker_dir", "max_rank", "max_checkpoint_gb", "train_batch_tokens",
             "max_loras", "max_body", "served_model_name", "vllm_max_model_len", "torch_dtype", "worker_urls"},
            program + " serve-tinker --model Qwen/Qwen2.5-0.5B-Instruct --port 8000"};
  if (verb == kEval)
    return {{"model", "adapters", "eval_dataset", "eval_dataset_args", "include_path", "eval_limit", "n_shot",
             "apply_chat_template", "eval_generation_config", "eval_output_dir", "eval_url", "log_samples", "torch_dtype"},
            program + " eval --model Qwen/Qwen2.5-0.5B-Instruct --eval_dataset gsm8k --eval_limit 100"};
  if (verb == kExport)
    return {{"model", "adapters", "merge_lora", "output_dir", "quant_method", "quant_bits", "dataset", "to_ollama", "push_to_hub",
             "hub_model_id", "torch_dtype", "max_shard_size"},
            program + " export --adapters output/first/last --merge_lora true --output_dir output/merged"};
  return {};
}

}  // namespace hone::cli
