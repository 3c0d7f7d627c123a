// Training commands: Megatron's names, its defaults, and the options they translate to.
#include <algorithm>
#include <map>

#include "hone/base/error.h"
#include "hone/base/json.h"
#include "hone/cli/arguments/tuners.h"
#include "hone/cli/megatron/given_options.h"
#include "hone/cli/megatron/megatron.h"
#include "hone/cli/megatron/optimizer_options.h"

namespace hone::cli {
namespace {

// The translated command line: options of `swift sft`, in the given order.
class MegatronLine {
 public:
  MegatronLine(std::string command, std::vector<GivenOption> given, int processes)
      : command_(std::move(command)), given_(std::move(given)), processes_(processes) {}

  std::vector<std::string> words() {
    for (const auto& option : given_) translate(option);
    set_start();
    set_batches();
    set_schedule();
    add_megatron_optimizer(handled_, made_);
    set_float8();
    set_recomputation();
    set_evaluation();
    set_experts();
    set_merging();
    set_fsdp();
    set_defaults();
    std::vector<std::string> line{command_};
    for (const auto& [name, values] : made_) {
      line.push_back("--" + name);
      line.insert(line.end(), values.begin(), values.end());
    }
    return line;
  }

 private:
  void translate(const GivenOption& option) {
    static constexpr std::string_view kHandled[] = {"global_batch_size",  "min_lr",
                                                    "lr_decay_style",     "lr_decay_iters",
                                                    "lr_warmup_init",     "lr_warmup_iters",
                                                    "lr_warmup_fraction", "lr_wsd_decay_style",
                                                    "lr_wsd_decay_iters", "recompute_granularity",
                                                    "recompute_method",   "recompute_num_layers",
                                                    "recompute_modules",  "moe_layer_recompute",
                                                    "eval_iters",         "save_safetensors",
                                                    "merge_lora",         "target_modules",
                                                    "mcore_model",        "load",
                                                    "mcore_adapter",      "adapter_load",
                                                    "finetune",           "steps_per_generation",
                                                    "use_megatron_fsdp",  "data_parallel_sharding_strategy",
                                                    "fp8_format"};
    const auto* known = find_megatron_option(option.name);
    const bool means_pairs = command_ == "rlhf" && option.name == "calculate_per_token_loss";  // counts pairs or rows, not tokens
    if (means_pairs) return;
    if (std::ranges::count(kHandled, option.name) || is_megatron_optimizer_option(option.name)) {
      handled_[option.name] = option;
    } else if (!known) {
      made_.push_back(option);  // ms-swift's own options: data, templates, models, tuners
    } else if (known->fate == MegatronOption::Fate::renamed) {
      made_.push_back({std::string(known->text), option.values});
    } else if (known->fate == MegatronOption::Fate::accepted) {
      warn_once(fmt::format("--{} has no effect: {}", option.name, known->text));
    } else if (!is_neutral(*known, option.value())) {
      throw UserError(ExitCode::usage, fmt::format("--{} {}: {}", option.name, option.value(), known->text));
    }
  }

  bool has(std::string_view name) const { return std::ranges::count(made_, name, &GivenOption::name) > 0; }
  int64_t number(const std::string& name, int64_t otherwise) const {
    const auto found = std::ranges::find(made_, name, &GivenOption::name);
    return found == made_.end() ? otherwise : found->whole_number();
  }
  void add(std::string name, std::string value) { made_.push_back({std::move(name), {std::move(value)}}); }

  // The global batch size is a multiple of the micro-batch size times the data parallel size.
  void set_batches() {
    const auto given = handled_.find("global_batch_size");
    const int64_t global = given == handled_.end() ? 16 : given->second.whole_number();
    const int64_t micro = number("per_device_train_batch_size", 1);
    const int64_t model =
        number("tensor_parallel_size", 1) * number("pipeline_parallel_size", 1) * number("context_parallel_size", 1);
    const int64_t copies = std::max<int64_t>(processes_ / model, 1);
    if (global % (micro * copies) != 0)
      throw UserError(
          ExitCode::usage,
          fmt::format("--global_batch_size {} is not a multiple of --micro_batch_size {} times {} data parallel ranks", global,
                      micro, copies),
          fmt::format("choose a multiple of {}", micro * copies));
    if (!has("per_device_train_batch_size")) add("per_device_train_batch_size", "1");
    const int64_t portions = global / (micro * copies);
    add("gradient_accumulation_steps", std::to_string(portions));
    if (handled_.contains("steps_per_generation"))  // Megatron counts optimizer steps, swift micro-batches
      add("steps_per_generation", std::to_string(portions * handled_["steps_per_generation"].whole_number()));
    if (!has("max_steps") && !has("num_train_epochs"))
      throw UserError(ExitCode::usage, "megatron needs the length of the training", "give --num_train_epochs or --train_iters");
  }

  // Megatron's schedule under its own name: its warm-up is not rounded to steps.
  void set_schedule() {
    static constexpr std::pair<const char*, const char*> kNumbers[] = {{"min_lr", "min_lr"},
                                                                       {"lr_warmup_init", "warmup_init"},
                                                                       {"lr_warmup_iters", "warmup_steps"},
                                                                       {"lr_warmup_fraction", "warmup_fraction"},
                                                                       {"lr_decay_iters", "decay_steps"},
                                                                       {"lr_wsd_decay_iters", "wsd_decay_steps"}};
    static constexpr std::pair<const char*, const char*> kWords[] = {{"lr_decay_style", "decay_style"},
                                                                     {"lr_wsd_decay_style", "wsd_decay_style"}};
    Json settings = Json::object();
    for (const auto& [name, key] : kNumbers)
      if (handled_.contains(name)) settings[key] = handled_[name].real_number();
    for (const auto& [name, key] : kWords)
      if (handled_.contains(name)) settings[key] = handled_[name].value();
    if (settings.contains("warmup_steps") && settings["warmup_steps"] == 0) settings.erase("warmup_steps");
    if (has("lr_scheduler_type")) {
      for (const auto& [name, key] : kNumbers) warn_of_other_schedule(name);
      for (const auto& [name, key] : kWords) warn_of_other_schedule(name);
      return;
    }
    add("lr_scheduler_type", "megatron");
    if (!settings.empty()) add("lr_scheduler_kwargs", settings.dump());
  }

  void warn_of_other_schedule(const char* name) const {
    if (handled_.contains(name))
      warn_once(fmt::format("--{} has no effect with --lr_scheduler_type, whose settings are --lr_scheduler_kwargs", name));
  }

  // The products are those of Megatron's format hybrid.
  void set_float8() {
    if (!is_on("fp8_format")) return;
    const auto format = handled_["fp8_format"].value();
    if (format != "e4m3" && format != "hybrid")
      throw UserError(ExitCode::usage, fmt::format("--fp8_format is {}", format), "expected e4m3 or hybrid");
    if (format == "e4m3") warn_once("--fp8_format e4m3: weights and activations are e4m3, gradients e5m2, as with hybrid");
    add("fp8", "true");
  }

  bool is_on(const std::string& name) const { return handled_.contains(name) && !handled_.at(name).is_off(); }

  // Megatron's selective recomputation of attention is the default behavior of attention here.
  void set_recomputation() {
    if (has("gradient_checkpointing")) return;
    const auto granularity = handled_.contains("recompute_granularity") ? handled_["recompute_granularity"].value() : "selective";
    const bool full = granularity == "full";
    if (full) limit_recomputation();
    const bool mlp = granularity == "selective" && recomputes_mlp();
    add("gradient_checkpointing", full || mlp ? "true" : "false");
    if (mlp) add("recompute_granularity", "selective"), add("recompute_modules", "mlp");
  }

  // `uniform` stores the input of every recompute_num_layers blocks, `block` recomputes that many blocks of each pipeline rank.
  void limit_recomputation() {
    const auto method = handled_.contains("recompute_method") ? handled_["recompute_method"].value() : "uniform";
    const auto blocks = handled_.contains("recompute_num_layers") ? handled_["recompute_num_layers"].whole_number() : 1;
    if (method == "uniform") {
      if (blocks > 1)
        warn_once(
            fmt::format("--recompute_num_layers {} has no effect: every block is recomputed by itself, so that the backward "
                        "pass holds the activations of one",
                        blocks));
      return;
    }
    if (method != "block")
      throw UserError(ExitCode::usage, fmt::format("--recompute_method is {}", method), "expected uniform or block");
    if (number("pipeline_parallel_size", 1) > 1)
      throw UserError(ExitCode::usage,
                      "--recompute_method block counts the blocks of each pipeline rank, which is not in this version",
                      "name blocks of the model with --recompute_layers, or use --recompute_method uniform");
    add("recompute_num_layers", std::to_string(blocks));
  }

  bool recomputes_mlp() {
    bool mlp = is_on("moe_layer_recompute");
    if (!handled_.contains("recompute_modules")) return mlp;
    for (const auto& name : handled_["recompute_modules"].values) {
      if (name != "core_attn" && name != "mlp" && name != "moe")
        throw UserError(ExitCode::usage,
                        fmt::format("--recompute_modules {}: only attention and MLPs are recomputed separately", name),
                        "use core_attn, mlp or moe, or full blocks: --recompute_granularity full");
      mlp |= name != "core_attn";
    }
    return mlp;
  }

  // Below 0: the full validation set.
  void set_evaluation() {
    if (!handled_.contains("eval_iters") || handled_["eval_iters"].value().starts_with("-")) return;
    if (handled_["eval_iters"].value() == "0")
      add("eval_strategy", "no");
    else
      add("eval_iters", std::to_string(handled_["eval_iters"].whole_number()));
  }

  // ms-swift merges adapters by default.
  void set_merging() {
    const bool safetensors = !handled_.contains("save_safetensors") || is_on("save_safetensors");
    if (!safetensors) warn_once("--save_safetensors false has no effect: checkpoints are safetensors");
    if (!uses_lora()) return;
    add("merge_lora", (handled_.contains("merge_lora") ? is_on("merge_lora") : safetensors) ? "true" : "false");
  }

  bool uses_lora() const {
    const auto tuner = std::ranges::find(made_, "tuner_type", &GivenOption::name);
    return tuner != made_.end() && trains_lora(tuner->value());
  }

  // ms-swift does not apply tensor parallelism to experts by default, and its all-linear includes experts.
  void set_experts() {
    if (!has("expert_tensor_parallel_size")) add("expert_tensor_parallel_size", "1");
    if (!has("moe_router_dtype")) add("moe_router_dtype", "fp32");
    if (!uses_lora()) return;
    GivenOption modules{"target_modules", {}}, parameters{"target_parameters", {}};
    const auto given = handled_.find("target_modules");
    for (const auto& name : given == handled_.end() ? std::vector<std::string>{"all-linear"} : given->second.values) {
      if (name == "all-linear") parameters.values.push_back("all-experts");
      if (name == "all-router")
        parameters.values.push_back("all-routers");
      else
        modules.values.push_back(name);
    }
    if (!modules.values.empty() && !has("target_regex")) made_.push_back(modules);
    if (!parameters.values.empty() && !has("target_parameters") && !has("target_regex")) made_.push_back(parameters);
  }

  // Megatron's FSDP options correspond to ZeRO stages.
  void set_fsdp() {
    static const std::map<std::string, std::string> kStrategies = {
        {"optim_grads_params", "zero3"}, {"optim_grads", "zero2"}, {"optim", "zero1"}, {"no_shard", "zero0"}};
    const auto strategy = handled_.find("data_parallel_sharding_strategy");
    const auto name = strategy == handled_.end() ? "optim_grads_params" : strategy->second.value();
    const auto found = kStrategies.find(name);
    if (found == kStrategies.end())
      throw UserError(ExitCode::usage, fmt::format("--data_parallel_sharding_strategy is {}", name),
                      "expected optim_grads_params, optim_grads, optim or no_shard");
    const bool sharded = handled_.contains("use_megatron_fsdp") && !handled_["use_megatron_fsdp"].is_off();
    if (sharded) add("deepspeed", found->second);
    if (sharded && name == "no_shard" && !has("use_distributed_optimizer")) add("use_distributed_optimizer", "false");
    if (!sharded && strategy != handled_.end())
      warn_once("--data_parallel_sharding_strategy has no effect without --use_megatron_fsdp");
  }

  // Megatron's checkpoint options may name Hugging Face folders: the run then starts from them or resumes.
  void set_start() {
    const bool goes_on = handled_.contains("finetune") && handled_["finetune"].is_off();
    bool named = false;
    for (const char* name : {"mcore_model", "load", "mcore_adapter", "adapter_load"}) {
      if (!handled_.contains(name)) continue;
      const fs::path folder = handled_[name].value();
      const auto kind = kind_of_folder(folder);
      if (kind == FolderKind::other)
        throw UserError(ExitCode::usage, fmt::format("--{} {}: {}", name, folder.string(), kMcoreUnread));
      named = true;
      if (kind == FolderKind::model && !has("model")) add("model", folder.string());
      if (goes_on)
        add("resume_from_checkpoint", folder.string());
      else if (kind == FolderKind::adapter)
        add("adapters", folder.string());
    }
    if (goes_on && !named && !has("resume_from_checkpoint"))
      throw UserError(ExitCode::usage, "--finetune false, and no checkpoint to resume from",
                      "name it with --mcore_model, --mcore_adapter or --resume_from_checkpoint");
  }

  // Defaults of Megatron that differ from `swift sft`.
  void set_defaults() {
    const std::pair<const char*, const char*> defaults[] = {{"tuner_type", "full"},
                                                            {"weight_decay", "0.1"},
                                                            {"adam_beta2", "0.95"},
                                                            {"warmup_ratio", "0"},
                                                            {"use_distributed_optimizer", "true"}};
    for (const auto& [name, value] : defaults)
      if (!has(name) && !(name == std::string_view("warmup_ratio") && has("warmup_steps"))) add(name, value);
    if (command_ == "rlhf" && !has("rlhf_type")) add("rlhf_type", "dpo");
    if (has("output_dir")) return;
    const auto model = std::ranges::find(made_, "model", &GivenOption::name);
    if (model != made_.end()) add("output_dir", (fs::path("megatron_output") / fs::path(model->value()).filename()).string());
  }

  std::string command_;
  std::vector<GivenOption> given_;
  int processes_;
  std::vector<GivenOption> made_;
  std::map<std::string, GivenOption> handled_;
};

}  // namespace

std::vector<std::string> megatron_training_line(const std::vector<std::string>& words, int processes) {
  return MegatronLine(words[0], read_given(words), processes).words();
}

}  // namespace hone::cli
