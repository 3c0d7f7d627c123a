#include "hone/cli/configs/training/tuning_config.h"

#include <fmt/ranges.h>

#include "hone/base/log.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/tuners.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/inference/generation_config.h"
#include "hone/optim/kwargs.h"
#include "hone/tuner/methods/method.h"
#include "hone/tuner/tuner.h"

namespace hone::cli {
namespace {

void read_starts(const TunerArguments& args, tuner::LoraConfig& lora) {
  lora.loftq_bits = std::stoll(*args.loftq_bits);
  lora.loftq_iterations = *args.loftq_iter;
  auto& start = lora.gradient_start;
  start.batch_size = *args.lora_ga_batch_size;
  start.batches = *args.lora_ga_iters;
  start.max_length = *args.lora_ga_max_length;
  start.direction = *args.lora_ga_direction;
  start.scale = *args.lora_ga_scale;
  start.gamma = static_cast<double>(*args.lora_ga_stable_gamma);
}

bool resizes_vocabulary(const ModelArguments& args) {
  return *args.resize_vocab || args.new_special_tokens.has_value() || args.add_tokens.has_value() ||
         args.new_special_tokens_config.has_value();
}

void read_lora(const Options& options, tuner::LoraConfig& lora) {
  const TunerArguments args(options);
  lora.rank = *args.lora_rank;
  lora.alpha = *args.lora_alpha;
  lora.dropout = *args.lora_dropout;
  lora.targets = *args.target_modules;
  lora.modules_to_save = *args.modules_to_save;
  // LLaMA-Factory trains the embeddings of a resized vocabulary.
  if (uses_factory_dialect(options) && lora.modules_to_save.empty() && resizes_vocabulary(ModelArguments(options)))
    lora.modules_to_save = {"embed_tokens", "lm_head"};
  lora.rslora = *args.use_rslora;
  lora.dora = *args.use_dora;
  if (!uses_factory_dialect(options)) {
    lora.target_regex = *args.target_regex;
    lora.target_parameters = *args.target_parameters;
    lora.bias = *args.lora_bias;
    lora.dtype = dtype_option(args.lora_dtype);
    lora.init = *args.init_weights;
    read_starts(args, lora);
  }
  if (*args.pissa_init) {
    lora.convert_at_end = *args.pissa_convert;
    lora.init = *args.pissa_iter == -1 ? "pissa" : fmt::format("pissa_niter_{}", *args.pissa_iter);
  }
}

Json reft_fields(const Options& options) {
  const TunerArguments tuner_args(options);
  Json fields{{"r", *tuner_args.reft_rank},
              {"intervention_type", *tuner_args.reft_intervention_type},
              {"layer_key", nullptr},
              {"layers", nullptr},
              {"args", nullptr}};
  if (tuner_args.reft_layer_key.has_value()) fields["layer_key"] = *tuner_args.reft_layer_key;
  if (tuner_args.reft_args.has_value()) fields["args"] = *tuner_args.reft_args;
  for (const auto& word : *tuner_args.reft_layers)
    fields["layers"].push_back(Json::accept(word) ? Json::parse(word) : Json(word));
  return fields;
}

// The method's own fields, by their names in adapter_config.json.
Json method_fields(const Options& options, std::string_view kind) {
  const TunerArguments args(options);
  if (kind == "adalora")
    return {{"target_r", *args.adalora_target_r}, {"init_r", *args.adalora_init_r},
            {"tinit", *args.adalora_tinit},       {"tfinal", *args.adalora_tfinal},
            {"deltaT", *args.adalora_deltaT},     {"beta1", *args.adalora_beta1},
            {"beta2", *args.adalora_beta2},       {"orth_reg_weight", *args.adalora_orth_reg_weight}};
  if (kind == "vera")
    return {{"r", *args.vera_rank},
            {"projection_prng_key", *args.vera_projection_prng_key},
            {"vera_dropout", *args.vera_dropout},
            {"d_initial", *args.vera_d_initial},
            {"save_projection", true}};
  if (kind == "oft")
    return {{"r", *args.oft_rank},        {"oft_block_size", *args.oft_block_size}, {"module_dropout", *args.module_dropout},
            {"use_cayley_neumann", true}, {"num_cayley_neumann_terms", 5},          {"peft_version", "0.18.0"}};
  if (kind == "boft")
    return {{"boft_block_size", *args.boft_block_size},
            {"boft_block_num", *args.boft_block_num},
            {"boft_n_butterfly_factor", *args.boft_n_butterfly_factor},
            {"boft_dropout", *args.boft_dropout}};
  if (kind == "fourierft")
    return {{"n_frequency", *args.fourier_n_frequency}, {"scaling", *args.fourier_scaling}, {"random_loc_seed", 777}};
  if (kind == "reft") return reft_fields(options);
  return {{"act_layer", *args.adapter_act}, {"adapter_length", *args.adapter_length}};
}

// The options of tuners that ms-swift has and LLaMA-Factory does not.
bool has_swift_tuners(const TunerArguments& args) { return args.vera_rank.exists(); }

void choose_kind(const Options& options, tuner::TunerConfig& config) {
  const TunerArguments args(options);
  const auto kind = *args.tuner_type;
  const auto* method = tuner::method_called(kind);
  const bool swift = has_swift_tuners(args);
  if (method && !(kind == "oft" ? args.oft_rank.exists() : swift)) method = nullptr;
  const bool expands = kind == "llamapro" && args.llamapro_num_new_blocks.exists();
  const bool groups = kind == "longlora" && swift;  // LoRA; shifted attention is not part of the tuner
  const bool trains_towers = kind == "lora_llm" && swift;
  if (kind != "lora" && kind != "full" && kind != "freeze" && !trains_towers && !expands && !groups && !method)
    throw UserError(ExitCode::usage, fmt::format("{} is \"{}\", which is not in this version", args.tuner_type.flag(), kind),
                    swift ? fmt::format("expected lora, lora_llm, longlora, full, freeze, llamapro, {}",
                                        fmt::join(tuner::method_names(), ", "))
                          : "expected lora, full, freeze or oft");
  config.kind = kind == "full"                ? tuner::TunerType::full
                : kind == "freeze" || expands ? tuner::TunerType::freeze
                                              : tuner::TunerType::adapter;
  if (!method) return;
  config.method = method->type;
  config.method_fields = method_fields(options, kind);
  if (kind == "oft" && args.oft_target.is_set()) config.lora.targets = *args.oft_target;
}

void read_freezing(const TunerArguments& args, tuner::TunerConfig& config) {
  if (args.freeze_vit.exists()) config.frozen_parts = {*args.freeze_llm, *args.freeze_vit, *args.freeze_aligner};
  if (*args.tuner_type == "lora_llm") {  // as in ms-swift, regardless of freeze_vit and freeze_aligner
    config.frozen_parts = {.llm = false, .vit = true, .aligner = true};
    config.lora.modules_to_save.push_back("all-towers");
  }
  if (config.kind == tuner::TunerType::freeze && args.freeze_trainable_layers.exists()) {
    config.layers.trainable_layers = *args.freeze_trainable_layers;
    config.layers.modules = *args.freeze_trainable_modules;
    config.layers.extra_modules = *args.freeze_extra_modules;
  }
  if (args.uses_factory_dialect()) return;
  config.parameters.freeze = *args.freeze_parameters;
  config.parameters.freeze_regex = *args.freeze_parameters_regex;
  config.parameters.freeze_ratio = *args.freeze_parameters_ratio;
  config.parameters.trainable = *args.trainable_parameters;
  config.parameters.trainable_regex = *args.trainable_parameters_regex;
}

// The model was expanded when it was loaded: every n-th block is trained.
void train_new_blocks(const TunerArguments& args, tuner::TunerConfig& config) {
  config.use_llama_pro = true;
  config.layers = {};
  config.layers.trainable_layers =
      *(args.llamapro_num_groups.has_value() ? args.llamapro_num_groups : args.llamapro_num_new_blocks);
}

// GaLore's options, written as optim_args.
void add_galore(const OptimizerArguments& args, optim::OptimizerConfig& config) {
  config.arguments["rank"] = *args.galore_rank;
  config.arguments["update_proj_gap"] = *args.galore_update_proj_gap;
  config.arguments["scale"] = *args.galore_scale;
  config.arguments["proj_type"] = *args.galore_proj_type;
  if (args.galore_target_modules.has_value()) config.target_modules = *args.galore_target_modules;
  config.per_parameter = *args.galore_optim_per_parameter;
  if (config.name.starts_with("q_galore")) {
    config.arguments["proj_quant"] = *args.galore_proj_quant;
    config.arguments["proj_bits"] = *args.galore_proj_bits;
    config.arguments["proj_group_size"] = *args.galore_proj_group_size;
    config.arguments["cos_threshold"] = *args.galore_cos_threshold;
    config.arguments["gamma_proj"] = *args.galore_gamma_proj;
    config.arguments["queue_size"] = *args.galore_queue_size;
    if (config.per_parameter)
      throw UserError(ExitCode::usage, "galore_quantization with galore_optim_per_parameter",
                      "leave one of them out; ms-swift does not combine them either");
  }
  if (*args.galore_with_embedding) config.target_modules.insert(config.target_modules.end(), {"embed_tokens", "lm_head"});
}

void add_apollo(const OptimizerArguments& args, optim::OptimizerConfig& config) {
  config.arguments["rank"] = *args.apollo_rank;
  config.arguments["update_proj_gap"] = *args.apollo_update_interval;
  config.arguments["scale"] = *args.apollo_scale;
  config.arguments["proj"] = *args.apollo_proj;
  config.arguments["proj_type"] = *args.apollo_proj_type;
  config.arguments["scale_type"] = *args.apollo_scale_type;
  config.arguments["scale_front"] = *args.apollo_scale_front;
  config.target_modules = *args.apollo_target;
  config.per_parameter = *args.apollo_layerwise;
}

void add_badam(const OptimizerArguments& args, optim::OptimizerConfig& config) {
  config.arguments["mode"] = *args.badam_mode;
  if (args.badam_start_block.has_value()) config.arguments["start_block"] = *args.badam_start_block;
  config.arguments["switch_mode"] = *args.badam_switch_mode;
  config.arguments["switch_interval"] = *args.badam_switch_interval;
  config.arguments["update_ratio"] = *args.badam_update_ratio;
  config.arguments["mask_mode"] = *args.badam_mask_mode;
  config.arguments["verbose"] = *args.badam_verbose;
}

std::string optimizer_name(const OptimizerArguments& args) {
  if (*args.adafactor) return "adafactor";
  if (*args.use_galore) return *args.galore_quantization ? "q_galore_adamw" : "galore_adamw";
  if (*args.use_muon) return "muon";
  if (*args.use_apollo) return "apollo_adamw";
  if (*args.use_badam) return "badam";
  if (*args.use_adam_mini) return "adam_mini";
  const auto plugin = *args.optimizer;
  if (plugin == "galore") return *args.galore_quantization ? "q_galore_adamw" : "galore_adamw";
  if (plugin == "lorap" || plugin.empty()) return *args.optim;  // LoRA+ only changes the parameter groups
  return plugin;
}

}  // namespace

std::optional<at::ScalarType> dtype_option(const Arg<std::string>& option) {
  auto text = option.value_or("");
  if (text == "bfloat16") return at::kBFloat16;
  if (text == "float16") return at::kHalf;
  if (text == "float32") return at::kFloat;
  return std::nullopt;
}

tuner::TunerConfig tuner_choice(const Options& options) {
  tuner::TunerConfig config;
  choose_kind(options, config);
  for (const auto& adapter : *ModelArguments(options).adapters) config.adapters.emplace_back(adapter);
  return config;
}

// A folder's absolute path, as in ms-swift, so that the adapter is usable from other working directories; a hub's id as it is.
static std::string found_from_anywhere(const std::string& model) {
  std::error_code ignored;
  return std::filesystem::is_directory(model, ignored) ? std::filesystem::absolute(model).lexically_normal().string() : model;
}

tuner::TunerConfig tuner_config(const Options& options) {
  const ModelArguments model_args(options);
  const TunerArguments tuner_args(options);
  tuner::TunerConfig config;
  read_lora(options, config.lora);
  choose_kind(options, config);
  read_freezing(tuner_args, config);
  for (const auto& folder : *model_args.adapters) {
    config.adapters.emplace_back(folder);
    remark_other_base(options, folder);
  }
  config.use_llama_pro = *tuner_args.use_llama_pro;
  if (*tuner_args.tuner_type == "llamapro") train_new_blocks(tuner_args, config);
  config.create_new_adapter = *tuner_args.create_new_adapter;
  config.base_model = found_from_anywhere(*model_args.model);
  config.seed = static_cast<uint64_t>(*model_args.seed);
  tuner::validate(config);
  if (!config.adapters.empty() && !config.create_new_adapter)
    for (const auto& option : {AnyArg(tuner_args.lora_rank), AnyArg(tuner_args.lora_alpha), AnyArg(tuner_args.target_modules)})
      if (option.is_set()) log::warning("{} is ignored: the adapter that is continued has its own", option.flag());
  return config;
}

optim::OptimizerConfig optimizer_config(const Options& options) {
  const OptimizerArguments args(options);
  optim::OptimizerConfig config;
  config.name = optimizer_name(args);
  config.adam.beta1 = *args.adam_beta1;
  config.adam.beta2 = *args.adam_beta2;
  config.adam.epsilon = *args.adam_epsilon;
  config.adam.exp_avg_dtype = *args.exp_avg_dtype == "bf16" ? at::kBFloat16 : at::kFloat;
  config.adam.exp_avg_sq_dtype = *args.exp_avg_sq_dtype == "bf16" ? at::kBFloat16 : at::kFloat;
  if (config.name.starts_with("galore") || config.name.starts_with("q_galore")) add_galore(args, config);
  if (*args.use_apollo) add_apollo(args, config);
  if (*args.use_badam) add_badam(args, config);
  if (args.optim_target_modules.has_value()) config.target_modules = *args.optim_target_modules;
  auto given = optim::parse_optim_args(*args.optim_args);
  for (const auto& [key, value] : given.items()) config.arguments[key] = value;
  return config;
}

optim::ParamGroupConfig group_config(const Options& options) {
  const OptimizerArguments args(options);
  optim::ParamGroupConfig config;
  config.learning_rate = *args.learning_rate;
  config.weight_decay = *args.weight_decay;
  config.vit_rate = args.vit_lr.optional();
  config.aligner_rate = args.aligner_lr.optional();
  config.loraplus_ratio = args.lorap_lr_ratio.optional();
  if (args.loraplus_lr_embedding.exists()) config.loraplus_embedding_rate = *args.loraplus_lr_embedding;
  return config;
}

optim::LrSchedulerConfig schedule_config(const Options& options) {
  const OptimizerArguments args(options);
  optim::LrSchedulerConfig config;
  config.name = *args.lr_scheduler_type;
  config.learning_rate = *args.learning_rate;
  if (auto arguments = *args.lr_scheduler_kwargs; arguments.is_object()) config.arguments = arguments;
  if (config.name == "reduce_lr_on_plateau" && *args.warmup_steps + *args.warmup_ratio > 0)
    log::warning("{} is ignored: reduce_lr_on_plateau starts at the full rate, as in transformers",
                 (*args.warmup_steps > 0 ? args.warmup_steps : args.warmup_ratio).flag());
  return config;
}

optim::WarmupConfig warmup_config(const Options& options) {
  const OptimizerArguments args(options);
  return {*args.warmup_steps, *args.warmup_ratio};
}

}  // namespace hone::cli
