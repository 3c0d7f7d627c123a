#include "hone/cli/compat/foreign_words.h"

#include <fmt/format.h>

namespace hone::cli::compat {
namespace {

struct ForeignCommand {
  std::string_view word, meant, factory;  // LLaMA-Factory uses other names for some commands
};

// Commands of ollama, vLLM, llama.cpp, the hubs' own tools, axolotl, torchtune and unsloth.
constexpr ForeignCommand kForeignCommands[] = {
    {"run", "infer", "chat"},
    {"generate", "infer", "chat"},
    {"predict", "infer", "chat"},
    {"inference", "infer", "chat"},
    {"serve", "deploy", "api"},
    {"server", "deploy", "api"},
    {"pull", "download", ""},
    {"fetch", "download", ""},
    {"finetune", "sft", "train"},
    {"fine-tune", "sft", "train"},
    {"tune", "sft", "train"},
    {"lora", "sft", "train"},
    {"qlora", "sft", "train"},
    {"pretrain", "pt", "train"},
    {"list", "models", ""},
    {"ls", "models", ""},
    {"merge", "merge-lora", "export"},
    {"quantize", "export", "export"},
    {"convert", "export", "export"},
    {"push", "export", "export"},
    {"upload", "export", "export"},
    {"dpo", "rlhf --rlhf_type dpo", "train"},
    {"grpo", "rlhf --rlhf_type grpo", "train"},
    {"orpo", "rlhf --rlhf_type orpo", "train"},
    {"kto", "rlhf --rlhf_type kto", "train"},
    {"rm", "rlhf --rlhf_type rm", "train"},
};

constexpr std::string_view kFourBits = "--quant_method bnb --quant_bits 4", kEightBits = "--quant_method bnb --quant_bits 8";

constexpr std::string_view kProcesses = "the environment variable NPROC_PER_NODE";

constexpr ForeignWord kForeignOptions[] = {
    {"m", "--model"},
    {"d", "--dataset"},
    {"o", "--output_dir"},
    {"data", "--dataset"},
    {"data_path", "--dataset"},
    {"train_file", "--dataset"},
    {"train_data", "--dataset"},
    {"base_model", "--model"},
    {"model_path", "--model"},
    {"lora_path", "--adapters"},
    {"adapter_path", "--adapters"},
    {"peft_path", "--adapters"},
    {"load_in_4bit", kFourBits},
    {"load_in_8bit", kEightBits},
    {"qlora", kFourBits},
    {"num_epochs", "--num_train_epochs"},
    {"steps", "--max_steps"},
    {"lora_r", "--lora_rank"},
    {"micro_batch_size", "--per_device_train_batch_size"},
    {"sequence_len", "--max_length"},
    {"context_length", "--max_model_len"},
    {"ctx_size", "--max_model_len"},
    {"seq_length", "--max_length"},
    {"bs", "--per_device_train_batch_size"},
    {"grad_accum", "--gradient_accumulation_steps"},
    {"rank", "--lora_rank"},
    {"alpha", "--lora_alpha"},
    {"use_lora", "--tuner_type lora"},
    {"bits", "--quant_bits"},
    {"precision", "--torch_dtype"},
    {"attn", "--attn_impl"},
    {"train_dataset", "--dataset"},
    {"template_name", "--template"},
    {"num_workers", "--dataloader_num_workers"},
    {"log_steps", "--logging_steps"},
    {"wandb", "--report_to wandb"},
    {"tp", "--tensor_parallel_size"},
    {"zero", "--deepspeed zero2"},
    {"zero_stage", "--deepspeed zero2"},
    {"gpus", kProcesses},
    {"num_gpus", kProcesses},
    {"nproc_per_node", kProcesses},
};

struct ForeignValue {
  std::string_view option, value, meant;
};
constexpr ForeignValue kForeignValues[] = {
    {"tuner_type", "qlora", "--tuner_type lora --quant_method bnb --quant_bits 4"},
    {"tuner_type", "dora", "--tuner_type lora --use_dora true"},
    {"tuner_type", "rslora", "--tuner_type lora --use_rslora true"},
    {"tuner_type", "pissa", "--tuner_type lora --init_weights pissa"},
    {"quant_method", "bitsandbytes", "--quant_method bnb"},
};

}  // namespace

std::string command_meant_by(FrontEnd front_end, std::string_view word) {
  for (const auto& row : kForeignCommands) {
    if (row.word != word) continue;
    const auto meant = front_end == FrontEnd::factory ? row.factory : row.meant;
    if (meant.empty()) return fmt::format("hone {}", row.meant);
    return fmt::format("{} {}", program_name(front_end), meant);
  }
  return "";
}

std::string_view option_meant_by(std::string_view name) {
  for (const auto& row : kForeignOptions)
    if (row.word == name) return row.meant;
  return "";
}

std::string_view value_meant_by(std::string_view option, std::string_view value) {
  for (const auto& row : kForeignValues)
    if (row.option == option && row.value == value) return row.meant;
  return "";
}

std::span<const ForeignWord> foreign_options() { return kForeignOptions; }

}  // namespace hone::cli::compat
