#include "hone/cli/factory_v1/v1_command.h"

#include <algorithm>
#include <map>

#include "hone/base/error.h"
#include "hone/cli/factory_v1/v1_settings.h"
#include "hone/cli/parsing/environment.h"

namespace hone::cli {
namespace {

using V1Keys = std::initializer_list<std::pair<const char*, const char*>>;  // v1's key -> the option

// Settings that mean the same under another name, or under their own.
constexpr std::pair<const char*, const char*> kTrainingNames[] = {{"micro_batch_size", "per_device_train_batch_size"},
                                                                  {"output_dir", "output_dir"},
                                                                  {"cutoff_len", "cutoff_len"},
                                                                  {"learning_rate", "learning_rate"},
                                                                  {"num_train_epochs", "num_train_epochs"},
                                                                  {"max_steps", "max_steps"},
                                                                  {"max_grad_norm", "max_grad_norm"},
                                                                  {"bf16", "bf16"},
                                                                  {"batching_workers", "dataloader_num_workers"},
                                                                  {"dist_timeout", "ddp_timeout"},
                                                                  {"seed", "seed"},
                                                                  {"full_determinism", "full_determinism"},
                                                                  {"save_total_limit", "save_total_limit"},
                                                                  {"logging_steps", "logging_steps"},
                                                                  {"pref_loss", "pref_loss"},
                                                                  {"pref_beta", "pref_beta"},
                                                                  {"pref_ftx", "pref_ftx"},
                                                                  {"simpo_gamma", "simpo_gamma"},
                                                                  {"dpo_label_smoothing", "dpo_label_smoothing"},
                                                                  {"ld_alpha", "ld_alpha"},
                                                                  {"eval_dataset", "eval_dataset"}};

// Defaults of v1, which differ from those of the first generation. AdamW and the constant rate are torch's.
constexpr std::pair<const char*, const char*> kTrainingDefaults[] = {{"per_device_train_batch_size", "1"},
                                                                     {"learning_rate", "1e-4"},
                                                                     {"num_train_epochs", "3"},
                                                                     {"bf16", "true"},
                                                                     {"dataloader_num_workers", "16"},
                                                                     {"ddp_timeout", "18000"},
                                                                     {"logging_steps", "1"},
                                                                     {"lr_scheduler_type", "constant"},
                                                                     {"weight_decay", "0.01"},
                                                                     {"gradient_accumulation_steps", "1"},
                                                                     {"overwrite_output_dir", "true"}};

class V1Command {
 public:
  V1Command(const std::vector<std::string>& words, const SystemAccess& system, int processes)
      : command_(words[0]), settings_({words.begin() + 1, words.end()}, system), system_(system), processes_(processes) {}

  std::vector<std::string> words() {
    set_model();
    if (command_ == "merge")
      set_export();
    else if (command_ == "chat")
      set_chat();
    else
      set_training();
    settings_.refuse_rest();
    std::vector<std::string> line{command_ == "merge" ? "export" : command_ == "chat" ? "chat" : "train"};
    for (const auto& [name, value] : made_) line.insert(line.end(), {"--" + name, value});
    return line;
  }

 private:
  void add(const std::string& name, const Json& value) { made_[name] = v1_word(value); }
  void add_default(const std::string& name, const Json& value) { made_.emplace(name, v1_word(value)); }
  void rename(V1Settings& from, V1Keys names) {
    for (const auto& [theirs, ours] : names)
      if (auto value = from.take(theirs)) add(ours, *value);
  }

  [[noreturn]] static void refuse(const std::string& key, const Json& found, const std::string& expected) {
    throw UserError(ExitCode::usage, fmt::format("{} is {}", key, v1_word(found)), "expected " + expected);
  }

  void set_model() {
    add("model_name_or_path", settings_.take_or("model", "Qwen/Qwen3-4B-Instruct-2507"));
    // v1 renders with the model's own template, and text cannot spell special tokens.
    add("template", settings_.take_or("custom_chat_template", "jinja"));
    add("guard_special_tokens", true);
    rename(settings_, {{"trust_remote_code", "trust_remote_code"}});
    const auto attention = v1_word(settings_.take_or("flash_attn", "sdpa"));
    static const std::map<std::string, std::string> kAttention = {
        {"eager", "disabled"}, {"sdpa", "sdpa"}, {"flash_attention_2", "fa2"}, {"flash_attention_3", "fa3"}};
    const auto known = kAttention.find(attention);
    if (known == kAttention.end()) refuse("flash_attn", attention, "eager, sdpa or flash_attention_2");
    add("flash_attn", known->second);
    if (const auto kind = settings_.take_or("model_class", "llm"); kind == "cls" && command_ != "rm")
      refuse("model_class", kind, "llm; the command rm trains a model with a score");
    settings_.take_plugin("init_config");  // weights are read where they are needed, whatever it says
    if (auto kernels = settings_.take_plugin("kernel_config")) {
      if (v1_word(kernels->take_or("name", "")).find("liger_kernel") != std::string::npos) add("enable_liger_kernel", true);
      kernels->take("include_kernels");  // the device decides
      kernels->refuse_rest();
    }
    set_quantization();
  }

  void set_quantization() {
    auto plugin = settings_.take_plugin("quant_config");
    if (!plugin) return;
    if (const auto name = plugin->take_or("name", ""); name != "bnb" && name != "auto")
      refuse("quant_config.name", name, "auto or bnb");
    if (auto bits = plugin->take("quantization_bit")) add("quantization_bit", *bits), add("quantization_method", "bnb");
    rename(*plugin, {{"double_quantization", "double_quantization"}, {"quantization_type", "quantization_type"}});
    plugin->take("compute_dtype");  // that of the run
    plugin->refuse_rest();
  }

  void set_tuner() {
    auto plugin = settings_.take_plugin("peft_config");
    if (!plugin) return add("finetuning_type", "full");
    const auto name = plugin->take_or("name", "");
    if (name != "lora" && name != "freeze") refuse("peft_config.name", name, "lora or freeze");
    add("finetuning_type", name);
    rename(*plugin, {{"r", "lora_rank"},
                     {"lora_alpha", "lora_alpha"},
                     {"lora_dropout", "lora_dropout"},
                     {"target_modules", "lora_target"},
                     {"use_rslora", "use_rslora"},
                     {"use_dora", "use_dora"},
                     {"modules_to_save", "additional_target"},
                     {"adapter_name_or_path", "adapter_name_or_path"},
                     {"freeze_trainable_layers", "freeze_trainable_layers"},
                     {"freeze_trainable_modules", "freeze_trainable_modules"},
                     {"freeze_extra_modules", "freeze_extra_modules"}});
    if (name == "lora") add_default("lora_dropout", 0.05);
    if (plugin->take_or("cast_trainable_params_to_fp32", true) == false) add("pure_bf16", true);
    for (const char* exported : {"export_dir", "export_size", "export_hub_model_id", "infer_dtype", "export_legacy_format"})
      plugin->take(exported);  // of the command merge
    plugin->refuse_rest();
  }

  void set_sharding() {
    auto plugin = settings_.take_plugin("dist_config");
    if (!plugin) return;
    const auto name = v1_word(plugin->take_or("name", ""));
    if (name == "deepspeed") {
      const auto file = v1_word(plugin->take_or("config_file", ""));
      if (file.empty()) refuse("dist_config.config_file", "empty", "the path of a DeepSpeed JSON file");
      add("deepspeed", file);
    } else if (name == "fsdp2" || name == "fsdpturbo") {
      add("fsdp", "full_shard");
      add("fsdp_config", Json{{"fsdp_version", 2},
                              {"fsdp_reshard_after_forward", plugin->take_or("reshard_after_forward", true)},
                              {"fsdp_offload_params", plugin->take_or("offload_params", false)}});
      if (auto ranks = plugin->take("ep_size"); ranks && *ranks != 1) add("expert_parallel_size", *ranks);
      for (const char* detail : {"pin_memory", "ep_dispatcher", "fsdp_implementation"}) plugin->take(detail);
      if (auto path = plugin->take("dcp_path"))
        refuse("dist_config.dcp_path", *path, "null: weights come from the model's folder");
    } else {
      refuse("dist_config.name", name, "fsdp2, deepspeed or fsdpturbo");
    }
    plugin->refuse_rest();
  }

  void set_optimizer() {
    auto plugin = settings_.take_plugin("optim_config");
    if (!plugin) return;
    if (const auto name = plugin->take_or("name", ""); name != "muon") refuse("optim_config.name", name, "muon");
    add("use_muon", true);
    add("weight_decay", plugin->take_or("wd", 0.1));
    const auto betas = plugin->take_or("adamw_betas", Json::array({0.9, 0.95}));
    if (!betas.is_array() || betas.size() != 2) refuse("optim_config.adamw_betas", betas, "two numbers");
    add("adam_beta1", betas[0]), add("adam_beta2", betas[1]);
    rename(*plugin, {{"adamw_eps", "adam_epsilon"}});
    plugin->take("lr");  // learning_rate takes precedence
    if (const auto momentum = plugin->take_or("momentum", 0.95); momentum != 0.95)
      refuse("optim_config.momentum", momentum, "0.95");
    if (const auto steps = plugin->take_or("ns_steps", 5); steps != 5) refuse("optim_config.ns_steps", steps, "5");
    if (const auto nesterov = plugin->take_or("nesterov", true); nesterov != true)
      refuse("optim_config.nesterov", nesterov, "true");
    plugin->refuse_rest();
  }

  void set_layout() {
    const auto ranks = settings_.take_or("cp_size", 1);
    if (!ranks.is_number_integer() || ranks < 1) refuse("cp_size", ranks, "a whole number of at least 1");
    const int64_t copies = std::max<int64_t>(processes_ / ranks.get<int64_t>(), 1);
    if (ranks > 1) add("context_parallel_size", ranks), add("cp_comm_type", "a2a");
    if (const auto mode = settings_.take_or("cp_mode", "ulysses"); mode != "ulysses") refuse("cp_mode", mode, "ulysses");
    if (const auto size = settings_.take_or("dp_size", copies); size != copies) refuse("dp_size", size, std::to_string(copies));
    if (const auto size = settings_.take_or("mp_replicate_size", 1); size != 1) refuse("mp_replicate_size", size, "1");
    settings_.take("mp_shard_size");  // all ranks
    const auto global = settings_.take("global_batch_size");
    if (!global) return;
    const int64_t together = micro_batch_size() * copies;
    if (!global->is_number_integer() || *global < together || global->get<int64_t>() % together != 0)
      refuse("global_batch_size", *global,
             fmt::format("a multiple of {}, micro_batch_size times the data parallel ranks", together));
    add("gradient_accumulation_steps", global->get<int64_t>() / together);
  }

  int64_t micro_batch_size() const {
    static constexpr Option kSize("micro_batch_size", Integer(1), "", "");
    const auto found = made_.find("per_device_train_batch_size");
    const Json given = found == made_.end() ? Json(1) : Json(found->second);
    const auto size = read_value(kSize, given);
    if (!size || size->is_null()) refuse("micro_batch_size", given, "a whole number of at least 1");
    return size->get<int64_t>();
  }

  void set_checkpoints() {
    const auto steps = settings_.take("save_steps"), epochs = settings_.take("save_epochs");
    add("save_strategy", steps ? "steps" : epochs ? "epoch" : "no");
    if (steps) add("save_steps", *steps);
    if (epochs && *epochs != 1) refuse("save_epochs", *epochs, "1, or save_steps");
    settings_.take("save_ckpt_as_hf");  // they always are
    if (const auto resumed = settings_.take("resume_from_checkpoint"))
      add("resume_from_checkpoint", *resumed == "auto" ? Json(true) : *resumed);
  }

  void set_batching() {
    const auto strategy = v1_word(settings_.take_or("batching_strategy", "normal"));
    if (strategy == "dynamic_batching" || strategy == "dynamic_padding_free")
      add("neat_packing", true);  // as many rows as fit into cutoff_len
    else if (strategy != "normal" && strategy != "padding_free")
      refuse("batching_strategy", strategy, "normal, padding_free, dynamic_batching or dynamic_padding_free");
  }

  void set_training() {
    add("stage", command_ == "train" ? "sft" : command_);
    add("do_train", true);
    const auto rows = settings_.take("train_dataset");
    if (!rows) throw UserError(ExitCode::usage, "train_dataset is missing", "give a file, a hub id, or a YAML file of datasets");
    add("dataset", v1_datasets(v1_word(*rows), system_));
    for (const auto& [theirs, ours] : kTrainingNames)
      if (auto value = settings_.take(theirs)) add(ours, *value);
    set_tuner();
    set_sharding();
    set_optimizer();
    set_layout();
    set_checkpoints();
    set_batching();
    add("disable_gradient_checkpointing", settings_.take_or("enable_activation_checkpointing", true) == false);
    if (auto scheduler = settings_.take_plugin("lr_scheduler_config"))
      refuse("lr_scheduler_config.name", scheduler->take_or("name", ""), "none: v1 has no schedule of its own");
    for (const char* sampling : {"sample_backend", "max_new_tokens"}) settings_.take(sampling);  // of the command chat
    for (const auto& [name, value] : kTrainingDefaults) add_default(name, value);
  }

  void set_export() {
    auto plugin = settings_.take_plugin("peft_config");
    if (!plugin)
      throw UserError(ExitCode::usage, "merge needs peft_config", "expected name: lora, adapter_name_or_path and export_dir");
    rename(*plugin, {{"adapter_name_or_path", "adapter_name_or_path"},
                     {"export_dir", "export_dir"},
                     {"export_size", "export_size"},
                     {"export_hub_model_id", "export_hub_model_id"},
                     {"infer_dtype", "infer_dtype"},
                     {"export_legacy_format", "export_legacy_format"}});
    add_default("export_size", 5);
  }

  void set_chat() {
    if (auto plugin = settings_.take_plugin("peft_config")) rename(*plugin, {{"adapter_name_or_path", "adapter_name_or_path"}});
    add("max_new_tokens", settings_.take_or("max_new_tokens", 128));
    const auto backend = settings_.take_or("sample_backend", "hf");
    add("infer_backend", backend == "vllm" ? "vllm" : "huggingface");
    for (const char* training : {"train_dataset", "output_dir", "cutoff_len", "bf16", "dist_config"}) settings_.take(training);
  }

  std::string command_;
  V1Settings settings_;
  const SystemAccess& system_;
  int processes_;
  std::map<std::string, std::string> made_;
};

}  // namespace

bool asks_for_v1(const SystemAccess& system) { return environment_flag(system, "USE_V1").value_or(false); }

std::vector<std::string> unwrap_v1(const std::vector<std::string>& words, const SystemAccess& system, int processes) {
  static constexpr std::string_view kCommands[] = {"train", "sft", "dpo", "rm", "merge", "chat"};
  const bool known = !words.empty() && std::ranges::count(kCommands, words[0]) > 0;
  if (!known || (words.size() > 1 && (words[1] == "-h" || words[1] == "--help"))) return words;
  return V1Command(words, system, processes).words();
}

}  // namespace hone::cli
