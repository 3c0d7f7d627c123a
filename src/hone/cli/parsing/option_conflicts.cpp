#include "hone/cli/parsing/option_conflicts.h"

#include "hone/cli/arguments/data.h"
#include "hone/cli/arguments/distributed.h"
#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/preference.h"
#include "hone/cli/arguments/training.h"
#include "hone/cli/arguments/tuners.h"
#include "hone/cli/configs/training/trainer_config.h"
#include "hone/cli/configs/training/tuning_config.h"
#include "hone/train/validate.h"
#include "hone/tuner/tuner.h"

namespace hone::cli {
namespace {

void reject(bool broken, const AnyArg& option, std::string_view message, std::string hint = "") {
  if (broken) throw UserError(ExitCode::usage, fmt::format("{} {}", option.flag(), message), std::move(hint));
}

void reject(bool broken, const AnyArg& first, const AnyArg& second, std::string_view message, std::string hint = "") {
  if (broken)
    throw UserError(ExitCode::usage, fmt::format("{} and {}: {}", first.flag(), second.flag(), message), std::move(hint));
}

void exclude(bool both, const AnyArg& first, const AnyArg& second) {
  if (both)
    throw UserError(ExitCode::usage, fmt::format("{} and {} exclude each other", first.flag(), second.flag()),
                    "keep one of them");
}

constexpr const char* kUnpacked = "leave packing out; batches hold no padding in any case";
constexpr const char* kSupervised = "belongs to supervised fine-tuning";

// The rules of a training run, in the order in which they are checked.
class TrainingRules {
 public:
  explicit TrainingRules(const Options& options)
      : data_(options),
        template_(options),
        model_(options),
        training_(options),
        tuner_(options),
        optimizer_(options),
        distributed_(options),
        preference_(options),
        generation_(options),
        factory_(data_.uses_factory_dialect()) {}

  void check() const {
    check_precision();
    check_dialect();
    check_data();
    check_evaluation();
    check_supervised();
    check_tuner();
    check_optimizer();
    check_quantization();
    check_method();
  }

 private:
  bool is_lora() const { return trains_lora(*tuner_.tuner_type); }
  bool is_quantized() const { return model_.quant_bits.has_value() || model_.quant_method.has_value(); }
  bool is_rlhf() const { return data_.verb() & kRlhf; }
  bool stage_is(std::initializer_list<std::string_view> stages) const {
    return std::ranges::count(stages, is_rlhf() ? *preference_.rlhf_type : *training_.stage) > 0;
  }
  // "zero3", "ds_z3_config.json" …: the stage according to the name of a preset or file; the file's content is checked when it is
  // read.
  bool is_zero3() const {
    const auto name = distributed_.deepspeed.has_value() ? distributed_.deepspeed.text() : "";
    return name.find("zero3") != name.npos || name.find("z3") != name.npos;
  }

  void check_precision() const {
    optim::validate(warmup_config(optimizer_.options()));
    exclude(*training_.bf16 && *training_.fp16, training_.bf16, training_.fp16);
    exclude(*training_.bf16_full_eval && *training_.fp16_full_eval, training_.bf16_full_eval, training_.fp16_full_eval);
  }

  void check_data() const {
    reject(*data_.streaming && *training_.max_steps <= 0, data_.streaming, training_.max_steps,
           "a stream has no known length, so the number of steps must be given");
    exclude(*data_.streaming && data_.max_samples.has_value(), data_.streaming, data_.max_samples);
    reject(*data_.streaming && is_lora() && *tuner_.init_weights == "lora-ga", data_.streaming, tuner_.init_weights,
           "lora-ga starts from the gradient of rows, which a stream has not shown yet");
    reject(factory_ && data_.interleave_prob.has_value() && *data_.mix_strategy == "concat", data_.interleave_prob,
           data_.mix_strategy, "concat uses every row once and has no probabilities",
           fmt::format("set {} interleave_under, or leave {} out", data_.mix_strategy.flag(), data_.interleave_prob.flag()));
    exclude(data_.val_dataset.has_value() && factory_ && *data_.split_dataset_ratio > 0, data_.val_dataset,
            data_.split_dataset_ratio);
  }

  // Options about rows that only LLaMA-Factory's dialect reads: otherwise a run would learn from other rows than its command
  // says.
  void check_dialect() const {
    if (factory_ && is_rlhf())
      throw UserError(ExitCode::usage, "`rlhf` does not support LLaMA-Factory's dialect",
                      "use hone train --stage dpo, kto, rm or ppo");
    if (!factory_ && data_.verb() & kTrain)
      throw UserError(ExitCode::usage, "train is LLaMA-Factory's command, and the dialect is ms-swift's",
                      "add --dialect factory; commands of the other dialect are sft, pt and rlhf");
    if (factory_) return;
    const auto needs_factory = [](const AnyArg& option, std::string_view native) {
      reject(option.is_set() && option.raw() != Json(false), option, "belongs to LLaMA-Factory's dialect",
             fmt::format("{}, or set --dialect factory", native));
    };
    needs_factory(data_.max_samples, "write the number of rows after the path: --dataset train.jsonl#500");
    needs_factory(data_.mix_strategy, "use --interleave_prob and --stopping_strategy");
    needs_factory(data_.dataset_dir, "give paths in --dataset");
    needs_factory(data_.media_dir, "set the environment variable ROOT_IMAGE_DIR");
    needs_factory(template_.train_on_prompt, "use --loss_scale all");
    needs_factory(template_.mask_history, "use --loss_scale last_round");
  }

  void check_evaluation() const {
    train::validate(trainer_config(training_.options()));
    const auto data = fmt::format("add {} or {}", data_.val_dataset.flag(), data_.split_dataset_ratio.flag());
    const bool has_data = has_validation_data(data_.options());
    reject(training_.eval_strategy.is_set() && *training_.eval_strategy != "no" && !has_data, training_.eval_strategy,
           "needs validation data", data);
    reject((*training_.do_predict || *training_.do_eval) && !has_data,
           *training_.do_predict ? training_.do_predict : training_.do_eval, "needs validation data", data);
  }

  void check_supervised() const {
    const bool sft = *training_.stage == "sft";
    exclude(*template_.mask_history && *template_.train_on_prompt, template_.mask_history, template_.train_on_prompt);
    reject(*template_.mask_history && !sft, template_.mask_history, kSupervised);
    reject(*template_.train_on_prompt && !sft, template_.train_on_prompt, kSupervised);
    reject(*data_.neat_packing && !sft, data_.neat_packing, kSupervised);
    reject(*training_.predict_with_generate && !sft, training_.predict_with_generate, kSupervised);
  }

  void check_tuner() const {
    const bool lora = is_lora();
    const auto set = [&](const char* type) { return fmt::format("set {} {}", tuner_.tuner_type.flag(), type); };
    reject(*tuner_.use_dora && !lora, tuner_.use_dora, "is a form of lora", set("lora"));
    reject(*tuner_.use_rslora && !lora, tuner_.use_rslora, "is a form of lora", set("lora"));
    reject(*tuner_.pissa_init && !lora, tuner_.pissa_init, "is an initialization of lora", set("lora"));
    reject(optimizer_.lorap_lr_ratio.has_value() && !lora, optimizer_.lorap_lr_ratio, "is a form of lora", set("lora"));
    reject(tuner_.lisa_activated_layers.value_or(0) > 0 && *tuner_.tuner_type != "full", tuner_.lisa_activated_layers,
           "trains full layers", set("full"));
    const auto tuner = *tuner_.tuner_type;
    const bool has_adapter = tuner != "full" && tuner != "freeze" && tuner != "llamapro";
    reject(generation_.merge_lora.is_set() && *generation_.merge_lora && !has_adapter, generation_.merge_lora, tuner_.tuner_type,
           "checkpoints are full models already; there is no adapter to merge", "leave it out");
    if (model_.adapters.has_value()) tuner::validate(tuner_choice(tuner_.options()));
  }

  void check_optimizer() const {
    const bool galore = *optimizer_.use_galore, apollo = *optimizer_.use_apollo, badam = *optimizer_.use_badam;
    const bool lora = is_lora(), sharded = distributed_.deepspeed.has_value();
    const auto full = fmt::format("set {} full", tuner_.tuner_type.flag());
    reject(galore && lora, optimizer_.use_galore, "projects full gradients", full);
    reject(apollo && lora, optimizer_.use_apollo, "projects full gradients", full);
    reject(badam && lora, optimizer_.use_badam, "trains full decoder blocks", full);
    exclude(galore && apollo, optimizer_.use_galore, optimizer_.use_apollo);
    exclude(galore && badam, optimizer_.use_galore, optimizer_.use_badam);
    exclude(apollo && badam, optimizer_.use_apollo, optimizer_.use_badam);
    constexpr const char* kWhole = "the projection needs unsharded gradients";
    reject(galore && sharded, optimizer_.use_galore, distributed_.deepspeed, kWhole, "keep one of them");
    reject(apollo && sharded, optimizer_.use_apollo, distributed_.deepspeed, kWhole, "keep one of them");
  }

  void check_quantization() const {
    if (!is_quantized()) return;
    const auto& bits = model_.quant_bits;
    const auto start = tuner_.init_weights.exists() ? *tuner_.init_weights : "true";
    reject(!is_lora(), bits, tuner_.tuner_type, "quantized weights stay as they are and are adapted by lora");
    reject(*tuner_.pissa_init || *model_.resize_vocab || *tuner_.create_new_adapter, bits,
           "goes with neither pissa_init, resize_vocab nor create_new_adapter, which change weights");
    reject(*tuner_.use_dora, bits, tuner_.use_dora, "DoRA needs unquantized weights");
    reject(start != "true" && start != "false" && start != "gaussian", bits, tuner_.init_weights,
           "this initialization changes the base weights, which must be unquantized");
    reject(factory_ && model_.adapters->size() > 1, bits, model_.adapters,
           "a quantized base supports only one adapter; merge the others first");
  }

  void check_method() const {
    reject(*tuner_.pissa_init && stage_is({"dpo", "kto", "ppo"}), tuner_.pissa_init,
           "changes the base, which is the reference of this method");
    reject(factory_ && *training_.load_best_model_at_end && stage_is({"rm", "ppo"}), training_.load_best_model_at_end,
           "is not supported for reward models and ppo", "leave it out");
    reject(is_zero3() && *training_.pure_bf16, training_.pure_bf16, distributed_.deepspeed, "zero3 keeps float32 weights itself");
    reject(is_zero3() && factory_ && *training_.predict_with_generate, training_.predict_with_generate, distributed_.deepspeed,
           "generation needs unsharded weights; predict in a separate run");
    check_one_sharding(distributed_.options());
    reject(*data_.packing && is_rlhf() && !stage_is({"grpo", "dpo", "kto", "gkd", "rm"}), data_.packing, preference_.rlhf_type,
           "rows of this method cannot be packed", kUnpacked);
    reject(*data_.packing && factory_ && stage_is({"rm", "dpo", "kto"}), data_.packing, training_.stage,
           "rows of this method cannot be packed", kUnpacked);
  }

  DataArguments data_;
  TemplateArguments template_;
  ModelArguments model_;
  TrainingArguments training_;
  TunerArguments tuner_;
  OptimizerArguments optimizer_;
  DistributedArguments distributed_;
  PreferenceArguments preference_;
  GenerationArguments generation_;
  bool factory_;
};

}  // namespace

void check_one_sharding(const Options& options) {
  const DistributedArguments args(options);
  exclude(args.deepspeed.has_value() && args.fsdp.has_value(), args.deepspeed, args.fsdp);
}

void check_option_conflicts(const Options& options) {
  if (options.verb() & kTraining) TrainingRules(options).check();
}

}  // namespace hone::cli
