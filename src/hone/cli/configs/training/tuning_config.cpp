#include "hone/cli/configs/training/tuning_config.h"

#include <fmt/ranges.h>

#include "hone/base/log.h"
#include "hone/cli/configs/data_config.h"
#include "hone/tuner/methods/method.h"

namespace hone::cli {
namespace {

void read_starts(const Options& options, tuner::LoraConfig& lora) {
  lora.loftq_bits = std::stoll(options.text("loftq_bits"));
  lora.loftq_iterations = options.integer("loftq_iter");
  auto& start = lora.gradient_start;
  start.batch_size = options.integer("lora_ga_batch_size");
  start.batches = options.integer("lora_ga_iters");
  start.max_length = options.integer("lora_ga_max_length");
  start.direction = options.text("lora_ga_direction");
  start.scale = options.text("lora_ga_scale");
  start.gamma = static_cast<double>(options.integer("lora_ga_stable_gamma"));
}

bool resizes_vocabulary(const Options& options) {
  return options.flag("resize_vocab") || options.has("new_special_tokens") || options.has("add_tokens") ||
         options.has("new_special_tokens_config");
}

void read_lora(const Options& options, tuner::LoraConfig& lora) {
  lora.rank = options.integer("lora_rank");
  lora.alpha = options.real("lora_alpha");
  lora.dropout = options.real("lora_dropout");
  lora.targets = options.list("target_modules");
  lora.modules_to_save = options.list("modules_to_save");
  // LLaMA-Factory trains the embeddings of a vocabulary that it resized.
  if (uses_factory_dialect(options) && lora.modules_to_save.empty() && resizes_vocabulary(options))
    lora.modules_to_save = {"embed_tokens", "lm_head"};
  lora.rslora = options.flag("use_rslora");
  lora.dora = options.flag("use_dora");
  if (!uses_factory_dialect(options)) {
    lora.target_regex = options.text("target_regex");
    lora.target_parameters = options.list("target_parameters");
    lora.bias = options.text("lora_bias");
    lora.dtype = dtype_option(options, "lora_dtype");
    lora.init = options.text("init_weights");
    read_starts(options, lora);
  }
  if (options.has_option("pissa_init") && options.flag("pissa_init")) {
    lora.convert_at_end = options.flag("pissa_convert");
    lora.init = options.integer("pissa_iter") == -1 ? "pissa" : fmt::format("pissa_niter_{}", options.integer("pissa_iter"));
  }
}

Json reft_fields(const Options& options) {
  Json fields{{"r", options.integer("reft_rank")},
              {"intervention_type", options.text("reft_intervention_type")},
              {"layer_key", nullptr},
              {"layers", nullptr},
              {"args", nullptr}};
  if (options.has("reft_layer_key")) fields["layer_key"] = options.text("reft_layer_key");
  if (options.has("reft_args")) fields["args"] = options.json("reft_args");
  for (const auto& word : options.list("reft_layers"))
    fields["layers"].push_back(Json::accept(word) ? Json::parse(word) : Json(word));
  return fields;
}

// A method's own fields, under their names in adapter_config.json.
Json method_fields(const Options& options, std::string_view kind) {
  if (kind == "adalora")
    return {{"target_r", options.integer("adalora_target_r")}, {"init_r", options.integer("adalora_init_r")},
            {"tinit", options.integer("adalora_tinit")},       {"tfinal", options.integer("adalora_tfinal")},
            {"deltaT", options.integer("adalora_deltaT")},     {"beta1", options.real("adalora_beta1")},
            {"beta2", options.real("adalora_beta2")},          {"orth_reg_weight", options.real("adalora_orth_reg_weight")}};
  if (kind == "vera")
    return {{"r", options.integer("vera_rank")},
            {"projection_prng_key", options.integer("vera_projection_prng_key")},
            {"vera_dropout", options.real("vera_dropout")},
            {"d_initial", options.real("vera_d_initial")},
            {"save_projection", true}};
  if (kind == "oft")
    return {{"r", options.integer("oft_rank")},
            {"oft_block_size", options.integer("oft_block_size")},
            {"module_dropout", options.real("module_dropout")},
            {"use_cayley_neumann", true},
            {"num_cayley_neumann_terms", 5},
            {"peft_version", "0.18.0"}};
  if (kind == "boft")
    return {{"boft_block_size", options.integer("boft_block_size")},
            {"boft_block_num", options.integer("boft_block_num")},
            {"boft_n_butterfly_factor", options.integer("boft_n_butterfly_factor")},
            {"boft_dropout", options.real("boft_dropout")}};
  if (kind == "fourierft")
    return {{"n_frequency", options.integer("fourier_n_frequency")},
            {"scaling", options.real("fourier_scaling")},
            {"random_loc_seed", 777}};
  if (kind == "reft") return reft_fields(options);
  return {{"act_layer", options.text("adapter_act")}, {"adapter_length", options.integer("adapter_length")}};
}

void choose_kind(const Options& options, tuner::TunerConfig& config) {
  const auto kind = options.text("tuner_type");
  const auto* method = tuner::method_called(kind);
  if (method && !options.has_option(kind == "oft" ? "oft_rank" : "vera_rank")) method = nullptr;  // the other peer's
  const bool expands = kind == "llamapro" && options.has_option("llamapro_num_new_blocks");
  const bool groups =
      kind == "longlora" && options.has_option("vera_rank");  // LoRA; what it does to attention is no tuner's matter
  if (kind != "lora" && kind != "full" && kind != "freeze" && !expands && !groups && !method)
    throw UserError(
        ExitCode::usage, fmt::format("{} is \"{}\", which is not in this version", options.display_name("tuner_type"), kind),
        options.has_option("vera_rank")
            ? fmt::format("expected lora, longlora, full, freeze, llamapro, {}", fmt::join(tuner::method_names(), ", "))
            : "expected lora, full, freeze or oft");
  config.kind = kind == "full"                ? tuner::TunerType::full
                : kind == "freeze" || expands ? tuner::TunerType::freeze
                                              : tuner::TunerType::adapter;
  if (!method) return;
  config.method = method->type;
  config.method_fields = method_fields(options, kind);
  if (kind == "oft" && options.is_set("oft_target")) config.lora.targets = options.list("oft_target");
}

void read_freezing(const Options& options, tuner::TunerConfig& config) {
  if (options.has_option("freeze_vit"))
    config.frozen_parts = {options.flag("freeze_llm"), options.flag("freeze_vit"), options.flag("freeze_aligner")};
  if (config.kind == tuner::TunerType::freeze && options.has_option("freeze_trainable_layers")) {
    config.layers.trainable_layers = options.integer("freeze_trainable_layers");
    config.layers.modules = options.list("freeze_trainable_modules");
    config.layers.extra_modules = options.list("freeze_extra_modules");
  }
  if (uses_factory_dialect(options)) return;
  config.parameters.freeze = options.list("freeze_parameters");
  config.parameters.freeze_regex = options.text("freeze_parameters_regex");
  config.parameters.freeze_ratio = options.real("freeze_parameters_ratio");
  config.parameters.trainable = options.list("trainable_parameters");
  config.parameters.trainable_regex = options.text("trainable_parameters_regex");
}

// The model was expanded when it was loaded: what trains is every n-th block.
void train_new_blocks(const Options& options, tuner::TunerConfig& config) {
  config.use_llama_pro = true;
  config.layers = {};
  config.layers.trainable_layers =
      options.integer(options.has("llamapro_num_groups") ? "llamapro_num_groups" : "llamapro_num_new_blocks");
}

bool turns_on(const Options& options, std::string_view flag) { return options.has_option(flag) && options.flag(flag); }

// GaLore's own options, as optim_args would spell them.
void add_galore(const Options& options, optim::OptimizerConfig& config) {
  config.arguments["rank"] = options.integer("galore_rank");
  config.arguments["update_proj_gap"] = options.integer("galore_update_proj_gap");
  config.arguments["scale"] = options.real("galore_scale");
  config.arguments["proj_type"] = options.text("galore_proj_type");
  if (options.has("galore_target_modules")) config.target_modules = options.list("galore_target_modules");
  config.per_parameter = options.flag("galore_optim_per_parameter");
  if (config.name.starts_with("q_galore")) {
    config.arguments["proj_quant"] = options.flag("galore_proj_quant");
    config.arguments["proj_bits"] = options.integer("galore_proj_bits");
    config.arguments["proj_group_size"] = options.integer("galore_proj_group_size");
    config.arguments["cos_threshold"] = options.real("galore_cos_threshold");
    config.arguments["gamma_proj"] = options.integer("galore_gamma_proj");
    config.arguments["queue_size"] = options.integer("galore_queue_size");
    if (config.per_parameter)
      throw UserError(ExitCode::usage, "galore_quantization with galore_optim_per_parameter",
                      "leave one of them out; ms-swift has them apart too");
  }
  if (turns_on(options, "galore_with_embedding"))
    config.target_modules.insert(config.target_modules.end(), {"embed_tokens", "lm_head"});
}

void add_apollo(const Options& options, optim::OptimizerConfig& config) {
  config.arguments["rank"] = options.integer("apollo_rank");
  config.arguments["update_proj_gap"] = options.integer("apollo_update_interval");
  config.arguments["scale"] = options.real("apollo_scale");
  config.arguments["proj"] = options.text("apollo_proj");
  config.arguments["proj_type"] = options.text("apollo_proj_type");
  config.arguments["scale_type"] = options.text("apollo_scale_type");
  config.arguments["scale_front"] = options.flag("apollo_scale_front");
  config.target_modules = options.list("apollo_target");
  config.per_parameter = options.flag("apollo_layerwise");
}

void add_badam(const Options& options, optim::OptimizerConfig& config) {
  config.arguments["mode"] = options.text("badam_mode");
  if (options.has("badam_start_block")) config.arguments["start_block"] = options.integer("badam_start_block");
  config.arguments["switch_mode"] = options.text("badam_switch_mode");
  config.arguments["switch_interval"] = options.integer("badam_switch_interval");
  config.arguments["update_ratio"] = options.real("badam_update_ratio");
  config.arguments["mask_mode"] = options.text("badam_mask_mode");
  config.arguments["verbose"] = options.integer("badam_verbose");
}

std::string optimizer_name(const Options& options) {
  if (options.flag("adafactor")) return "adafactor";
  if (options.flag("use_galore")) return turns_on(options, "galore_quantization") ? "q_galore_adamw" : "galore_adamw";
  if (turns_on(options, "use_muon")) return "muon";
  if (turns_on(options, "use_apollo")) return "apollo_adamw";
  if (turns_on(options, "use_badam")) return "badam";
  if (turns_on(options, "use_adam_mini")) return "adam_mini";
  std::string plugin = options.has_option("optimizer") ? options.text("optimizer") : "";
  if (plugin == "galore") return turns_on(options, "galore_quantization") ? "q_galore_adamw" : "galore_adamw";
  if (plugin == "lorap" || plugin.empty()) return options.text("optim");  // LoRA+ is a matter of parameter groups
  return plugin;
}

}  // namespace

std::optional<at::ScalarType> dtype_option(const Options& options, std::string_view name) {
  auto text = options.has(name) ? options.text(name) : "";
  if (text == "bfloat16") return at::kBFloat16;
  if (text == "float16") return at::kHalf;
  if (text == "float32") return at::kFloat;
  return std::nullopt;
}

tuner::TunerConfig tuner_config(const Options& options) {
  tuner::TunerConfig config;
  read_lora(options, config.lora);
  choose_kind(options, config);
  read_freezing(options, config);
  for (const auto& folder : options.list("adapters")) config.adapters.emplace_back(folder);
  config.use_llama_pro = options.has_option("use_llama_pro") && options.flag("use_llama_pro");
  if (options.text("tuner_type") == "llamapro") train_new_blocks(options, config);
  config.create_new_adapter = options.has_option("create_new_adapter") && options.flag("create_new_adapter");
  config.base_model = options.text("model");
  config.seed = static_cast<uint64_t>(options.integer("seed"));
  if (!config.adapters.empty() && config.kind != tuner::TunerType::adapter)
    throw UserError(ExitCode::usage,
                    fmt::format("{} is given with {} {}", options.display_name("adapters"), options.display_name("tuner_type"),
                                options.text("tuner_type")),
                    "adapters are continued by adapter methods such as lora; merge them first for full tuning");
  if (!config.adapters.empty() && !config.create_new_adapter)
    for (const char* name : {"lora_rank", "lora_alpha", "target_modules"})
      if (options.is_set(name))
        log::warning("{} is ignored: the adapter that is continued has its own", options.display_name(name));
  return config;
}

optim::OptimizerConfig optimizer_config(const Options& options) {
  optim::OptimizerConfig config;
  config.name = optimizer_name(options);
  config.adam.beta1 = options.real("adam_beta1");
  config.adam.beta2 = options.real("adam_beta2");
  config.adam.epsilon = options.real("adam_epsilon");
  if (config.name.starts_with("galore") || config.name.starts_with("q_galore")) add_galore(options, config);
  if (turns_on(options, "use_apollo")) add_apollo(options, config);
  if (turns_on(options, "use_badam")) add_badam(options, config);
  if (options.has("optim_target_modules")) config.target_modules = options.list("optim_target_modules");
  auto given = optim::parse_optim_args(options.text("optim_args"));
  for (const auto& [key, value] : given.items()) config.arguments[key] = value;
  return config;
}

optim::ParamGroupConfig group_config(const Options& options) {
  optim::ParamGroupConfig config;
  config.learning_rate = options.real("learning_rate");
  config.weight_decay = options.real("weight_decay");
  if (options.has_option("vit_lr") && options.has("vit_lr")) config.vit_rate = options.real("vit_lr");
  if (options.has_option("aligner_lr") && options.has("aligner_lr")) config.aligner_rate = options.real("aligner_lr");
  if (options.has("lorap_lr_ratio")) config.loraplus_ratio = options.real("lorap_lr_ratio");
  if (options.has_option("loraplus_lr_embedding")) config.loraplus_embedding_rate = options.real("loraplus_lr_embedding");
  return config;
}

optim::LrSchedulerConfig schedule_config(const Options& options) {
  optim::LrSchedulerConfig config;
  config.name = options.text("lr_scheduler_type");
  config.learning_rate = options.real("learning_rate");
  if (auto arguments = options.json("lr_scheduler_kwargs"); arguments.is_object()) config.arguments = arguments;
  return config;
}

WarmUp warm_up(const Options& options) {
  WarmUp result{options.real("warmup_steps"), options.real("warmup_ratio")};
  if (options.text("lr_scheduler_type") == "reduce_lr_on_plateau" && result.steps + result.ratio > 0)
    log::warning("{} is ignored: reduce_lr_on_plateau starts at the full rate, as in transformers",
                 options.display_name(result.steps > 0 ? "warmup_steps" : "warmup_ratio"));
  return result;
}

}  // namespace hone::cli
