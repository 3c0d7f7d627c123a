// Options that exclude or need each other. Asked before anything is loaded.
#include <cmath>

#include "hone/cli/parsing/parse.h"

namespace hone::cli {
namespace {

struct Rule {
  bool (*broken)(const Options&);
  const char* first;   // option names; messages use the front end's own
  const char* second;  // may be null
  const char* message;
  const char* hint = "";
};

bool factory_dialect(const Options& o) { return o.text("dialect") == "factory"; }
bool asks(const Options& o, std::string_view flag) { return o.has_option(flag) && o.flag(flag); }
bool lora(const Options& o) { return o.text("tuner_type") == "lora" || o.text("tuner_type") == "longlora"; }
bool sft(const Options& o) { return o.text("stage") == "sft"; }
bool validation_data(const Options& o) {
  return o.has("val_dataset") || o.has("cached_val_dataset") || o.real("split_dataset_ratio") > 0;
}
// Shares of all steps (below 1) compare with shares alone, as in transformers.
bool saves_fall_on_evaluations(const Options& o) {
  double save = o.real("save_steps"), eval = o.real("eval_steps");
  if ((save < 1) != (eval < 1) || eval <= 0) return false;
  double times = save / eval;
  return std::abs(times - std::round(times)) < 1e-6;
}

bool stage_is(const Options& o, std::initializer_list<std::string_view> stages) {
  auto stage = o.verb() & kRlhf ? o.text("rlhf_type") : o.text("stage");
  return std::ranges::count(stages, stage) > 0;
}
bool quantized(const Options& o) { return o.has("quant_bits") || o.has("quant_method"); }
// "zero3", "ds_z3_config.json" …: the stage that a preset's or a file's name tells; a file's content is looked at when it is
// read.
bool zero3(const Options& o) {
  auto name = o.has("deepspeed") ? o.text("deepspeed") : "";
  return name.find("zero3") != name.npos || name.find("z3") != name.npos;
}

constexpr const char* kUnpacked = "leave packing out; batches hold no padding in any case";

constexpr Rule kRules[] = {
    {[](const Options& o) { return o.real("warmup_ratio") > 0 && o.real("warmup_steps") > 0; }, "warmup_ratio", "warmup_steps",
     "say the same thing in two ways; give one of them"},
    {[](const Options& o) { return o.flag("bf16") && o.flag("fp16"); }, "bf16", "fp16", "exclude each other"},
    {[](const Options& o) { return o.flag("bf16_full_eval") && o.flag("fp16_full_eval"); }, "bf16_full_eval", "fp16_full_eval",
     "exclude each other"},
    {[](const Options& o) {
       return (o.flag("bf16_full_eval") || o.flag("fp16_full_eval")) && (zero3(o) || o.has("fsdp") || quantized(o));
     },
     "bf16_full_eval", nullptr, "needs unsharded, unquantized weights in one process: neither zero3, fsdp nor quantization"},
    {[](const Options& o) { return o.flag("streaming") && o.integer("max_steps") <= 0; }, "streaming", "max_steps",
     "a stream has no known length, so the number of steps must be given"},
    {[](const Options& o) { return o.flag("streaming") && o.has("max_samples"); }, "streaming", "max_samples",
     "exclude each other"},
    {[](const Options& o) { return o.flag("streaming") && lora(o) && o.text("init_weights") == "lora-ga"; }, "streaming",
     "init_weights", "lora-ga starts from the gradient of rows, which a stream has not shown yet"},
    {[](const Options& o) { return o.has("val_dataset") && factory_dialect(o) && o.real("split_dataset_ratio") > 0; },
     "val_dataset", "split_dataset_ratio", "exclude each other"},
    {[](const Options& o) { return o.flag("load_best_model_at_end") && o.text("eval_strategy") == "no"; },
     "load_best_model_at_end", "eval_strategy", "the best checkpoint is only known when there is evaluation"},
    {[](const Options& o) { return o.text("save_strategy") == "best" && o.text("eval_strategy") == "no"; }, "save_strategy",
     "eval_strategy", "the best checkpoint is only known when there is evaluation"},
    {[](const Options& o) {
       return o.flag("load_best_model_at_end") && o.text("save_strategy") != o.text("eval_strategy") &&
              o.text("save_strategy") != "best";
     },
     "save_strategy", "eval_strategy",
     "must be the same with load_best_model_at_end, so that the best evaluation has a checkpoint to load"},
    {[](const Options& o) {
       return o.flag("load_best_model_at_end") && o.text("save_strategy") == "steps" && !saves_fall_on_evaluations(o);
     },
     "save_steps", "eval_steps", "with load_best_model_at_end the first must be a multiple of the second"},
    {[](const Options& o) { return o.is_set("eval_strategy") && o.text("eval_strategy") != "no" && !validation_data(o); },
     "eval_strategy", nullptr, "needs validation data: eval_dataset or val_size"},
    {[](const Options& o) { return (o.flag("do_predict") || o.flag("do_eval")) && !validation_data(o); }, "do_predict", nullptr,
     "needs validation data"},
    {[](const Options& o) { return o.flag("mask_history") && o.flag("train_on_prompt"); }, "mask_history", "train_on_prompt",
     "exclude each other"},
    {[](const Options& o) { return o.flag("mask_history") && !sft(o); }, "mask_history", nullptr,
     "belongs to supervised fine-tuning"},
    {[](const Options& o) { return o.flag("train_on_prompt") && !sft(o); }, "train_on_prompt", nullptr,
     "belongs to supervised fine-tuning"},
    {[](const Options& o) { return o.flag("neat_packing") && !sft(o); }, "neat_packing", nullptr,
     "belongs to supervised fine-tuning"},
    {[](const Options& o) { return o.flag("predict_with_generate") && !sft(o); }, "predict_with_generate", nullptr,
     "belongs to supervised fine-tuning"},
    {[](const Options& o) { return o.has("adapters") && factory_dialect(o) && !lora(o) && o.text("tuner_type") != "oft"; },
     "adapters", "tuner_type", "an adapter is only continued by lora"},
    {[](const Options& o) { return o.flag("use_dora") && !lora(o); }, "use_dora", "tuner_type", "is a form of lora"},
    {[](const Options& o) { return o.flag("use_rslora") && !lora(o); }, "use_rslora", "tuner_type", "is a form of lora"},
    {[](const Options& o) { return o.flag("pissa_init") && !lora(o); }, "pissa_init", "tuner_type", "is a start of lora"},
    {[](const Options& o) { return o.has("lorap_lr_ratio") && !lora(o); }, "lorap_lr_ratio", "tuner_type", "is a form of lora"},
    {[](const Options& o) {
       return o.has_option("lisa_activated_layers") && o.integer("lisa_activated_layers") > 0 && o.text("tuner_type") != "full";
     },
     "lisa_activated_layers", "tuner_type", "LISA trains full layers; use full tuning"},
    {[](const Options& o) { return o.flag("use_galore") && lora(o); }, "use_galore", "tuner_type",
     "projects full gradients; use full tuning"},
    {[](const Options& o) { return asks(o, "use_apollo") && lora(o); }, "use_apollo", "tuner_type",
     "projects full gradients; use full tuning"},
    {[](const Options& o) { return asks(o, "use_badam") && lora(o); }, "use_badam", "tuner_type",
     "trains full decoder blocks; use full tuning"},
    {[](const Options& o) { return o.flag("use_galore") + asks(o, "use_apollo") + asks(o, "use_badam") > 1; }, "use_galore",
     "use_apollo", "exclude each other and use_badam"},
    {[](const Options& o) { return o.has("deepspeed") && (o.flag("use_galore") || asks(o, "use_apollo")); }, "use_galore",
     "deepspeed", "exclude each other: the projection needs unsharded gradients"},
    {[](const Options& o) { return quantized(o) && !lora(o); }, "quant_bits", "tuner_type",
     "quantized weights stay as they are and are adapted by lora"},
    {[](const Options& o) {
       return quantized(o) && (asks(o, "pissa_init") || asks(o, "resize_vocab") || asks(o, "create_new_adapter"));
     },
     "quant_bits", nullptr, "goes with neither pissa_init, resize_vocab nor create_new_adapter, which change weights"},
    {[](const Options& o) { return quantized(o) && o.flag("use_dora"); }, "quant_bits", "use_dora",
     "DoRA needs unsharded weights"},
    {[](const Options& o) {
       auto start = o.has_option("init_weights") ? o.text("init_weights") : "true";
       return quantized(o) && start != "true" && start != "false" && start != "gaussian";
     },
     "quant_bits", "init_weights", "this initialization changes the base weights, which must be unsharded"},
    {[](const Options& o) { return quantized(o) && factory_dialect(o) && o.list("adapters").size() > 1; }, "quant_bits",
     "adapters", "only one adapter can be laid over quantized weights; merge the others first"},
    {[](const Options& o) {
       return asks(o, "pissa_init") && stage_is(o, {"dpo", "kto", "ppo"});
     },
     "pissa_init", nullptr, "changes the base, which is the reference of this method"},
    {[](const Options& o) {
       return factory_dialect(o) && o.flag("load_best_model_at_end") && stage_is(o, {"rm", "ppo"});
     },
     "load_best_model_at_end", nullptr, "is not kept for reward models and ppo"},
    {[](const Options& o) { return zero3(o) && asks(o, "pure_bf16"); }, "pure_bf16", "deepspeed",
     "zero3 keeps float32 weights itself"},
    {[](const Options& o) { return zero3(o) && factory_dialect(o) && o.flag("predict_with_generate"); }, "predict_with_generate",
     "deepspeed", "generation needs unsharded weights; predict in a separate run"},
    {[](const Options& o) { return o.has("deepspeed") && o.has("fsdp"); }, "deepspeed", "fsdp", "exclude each other"},
    {[](const Options& o) {
       return o.flag("packing") && o.verb() & kRlhf && !stage_is(o, {"grpo", "dpo", "kto", "gkd"});
     },
     "packing", "rlhf_type", "rows of this method cannot be packed", kUnpacked},
    {[](const Options& o) {
       return o.flag("packing") && factory_dialect(o) && stage_is(o, {"rm", "dpo", "kto"});
     },
     "packing", "stage", "rows of this method cannot be packed", kUnpacked},
    {[](const Options& o) { return o.verb() & kRlhf && stage_is(o, {"grpo"}) && o.has("teacher_model"); }, "teacher_model",
     "rlhf_type", "a teacher is not available in grpo; distill with gkd"},
    {[](const Options& o) { return o.verb() & kRlhf && stage_is(o, {"grpo"}) && o.has("teacher_model_server"); },
     "teacher_model_server", "rlhf_type", "a teacher is not available in grpo; distill with gkd"},
    {[](const Options& o) {
       return o.has_option("sequence_parallel_size") && o.integer("sequence_parallel_size") > 1 && o.verb() & kRlhf;
     },
     "sequence_parallel_size", "rlhf_type", "this loss compares full sequences, which sequence parallelism splits"},
};

}  // namespace

void check_option_conflicts(const Options& options) {
  if (!(options.verb() & kTraining)) return;
  for (const auto& rule : kRules) {
    if (!rule.broken(options)) continue;
    auto names = rule.second ? fmt::format("{} and {}", options.display_name(rule.first), options.display_name(rule.second))
                             : options.display_name(rule.first);
    throw UserError(ExitCode::usage, fmt::format("{}: {}", names, rule.message), rule.hint);
  }
}

}  // namespace hone::cli
