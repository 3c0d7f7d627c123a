#include "hone/cli/configs/training/preference_config.h"

#include <fmt/ranges.h>

#include "hone/base/log.h"
#include "hone/base/strings/counted.h"
#include "hone/cli/arguments/data.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/preference.h"
#include "hone/cli/arguments/training.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/model_checks.h"
#include "hone/cli/configs/training/distillation_config.h"
#include "hone/cli/configs/training/ppo_config.h"
#include "hone/cli/configs/training/reinforcement_config.h"
#include "hone/hub/locate.h"
#include "hone/model/config.h"
#include "hone/train/losses/pair_losses.h"

namespace hone::cli {
namespace {

using train::Preference;
using train::PreferenceConfig;

const std::vector<std::string> kKtoLosses = {"kto", "apo_zero_unpaired"};
const std::vector<std::string> kFactoryLosses = {"sigmoid", "hinge", "ipo", "kto_pair", "orpo", "simpo"};

Preference method_named(const std::string& name) {
  constexpr std::pair<std::string_view, Preference> kMethods[] = {{"dpo", Preference::dpo},   {"cpo", Preference::cpo},
                                                                  {"simpo", Preference::cpo}, {"orpo", Preference::orpo},
                                                                  {"kto", Preference::kto},   {"rm", Preference::rm}};
  for (const auto& [known, method] : kMethods)
    if (known == name) return method;
  return Preference::none;
}

// trl has two names for one of the losses.
std::vector<std::string> asked_losses(const PreferenceArguments& args) {
  auto names = *args.loss_type;
  for (auto& name : names)
    if (name == "aot_pair") name = "aot_unpaired";
  return names;
}

// Empty: the method has a single loss.
std::vector<std::string> losses_of(const Options& options, Preference method) {
  if (uses_factory_dialect(options)) return method == Preference::dpo ? kFactoryLosses : std::vector<std::string>{};
  if (method == Preference::kto) return kKtoLosses;
  std::vector<std::string> names;
  for (const auto& loss : train::pair_loss_traits())
    if ((method == Preference::dpo && loss.dpo) || (method == Preference::cpo && loss.cpo)) names.emplace_back(loss.name);
  return names;
}

void check_losses(const Options& options, Preference method) {
  const PreferenceArguments args(options);
  const auto known = losses_of(options, method);
  if (known.empty() || args.loss_type.is_auto()) return;
  const auto names = asked_losses(args);
  const bool several = method == Preference::dpo && !uses_factory_dialect(options);
  if (names.empty() || (names.size() > 1 && !several))
    throw UserError(
        ExitCode::usage,
        fmt::format("{} names {} losses, and {} has one", args.loss_type.flag(), names.size(), training_method(options)),
        "ms-swift's dpo alone adds up several, with weights");
  for (const auto& name : names)
    if (!std::ranges::count(known, name))
      throw UserError(ExitCode::usage,
                      fmt::format("{} {} does not go with {}", args.loss_type.flag(), name, training_method(options)),
                      fmt::format("expected {}", fmt::join(known, ", ")));
}

void read_swift_losses(const PreferenceArguments& args, PreferenceConfig& config) {
  auto names = config.method == Preference::orpo ? std::vector<std::string>{"orpo"} : asked_losses(args);
  auto weights = *args.loss_weights;
  if (config.method != Preference::dpo && !weights.empty())
    throw UserError(ExitCode::usage,
                    fmt::format("{}: several losses with weights are added up for dpo alone", args.loss_weights.flag()),
                    "leave it out");
  if (!weights.empty() && weights.size() != names.size())
    throw UserError(
        ExitCode::usage,
        fmt::format("{} has {} for {} losses", args.loss_weights.flag(), counted(weights.size(), "number"), names.size()),
        "give one weight for each loss");
  for (size_t i = 0; i < names.size(); ++i) config.losses.push_back({names[i], weights.empty() ? 1.0 : weights[i]});
  if (config.method == Preference::dpo && args.rpo_alpha.has_value()) config.rpo_alpha = *args.rpo_alpha;
  if (config.method == Preference::cpo) config.rpo_alpha = *args.cpo_alpha;
  if (config.method == Preference::orpo) config.rpo_alpha = 1;
  if (names.front() == "simpo" && config.rpo_alpha > 0)
    log::info("{} {} adds the SFT loss of the chosen completions to SimPO; 0 is SimPO alone", args.cpo_alpha.flag(),
              config.rpo_alpha);
}

// `stage: dpo` covers all of these methods; pref_loss selects one.
void read_factory_losses(const PreferenceArguments& args, PreferenceConfig& config) {
  const auto loss = asked_losses(args).front();
  if (loss == "orpo") config.method = Preference::orpo;
  if (loss == "simpo") config.method = Preference::cpo;
  if (loss != "sigmoid" && config.label_smoothing > 1e-6)
    throw UserError(ExitCode::usage, fmt::format("{} supports only the loss sigmoid, not {}", args.label_smoothing.flag(), loss));
  config.losses = {{loss, 1}};
  config.rpo_alpha = (loss == "orpo" ? 1 : 0) + args.rpo_alpha.value_or(0);
  config.rpo_alpha_by_row = true;
  if (config.method == Preference::dpo) config.bco_weight = *args.pref_bco_weight;
}

// Loss settings that have no effect on the chosen method.
void note_unused(const Options& options, const PreferenceConfig& config) {
  const PreferenceArguments args(options);
  const auto name = training_method(options);
  auto note = [&](const AnyArg& option) {
    if (option.is_set()) log::warning("{} has no effect on {}", option.flag(), name);
  };
  if (losses_of(options, config.method).empty() && asked_losses(args) != std::vector{name}) note(args.loss_type);
  if (config.method == Preference::rm) note(args.beta), note(args.label_smoothing);
}

void note_unused_by_losses(const PreferenceArguments& args, const PreferenceConfig& config) {
  const auto belongs_to = [&](const AnyArg& option, std::string_view loss) {
    if (option.is_set() && std::ranges::count(config.losses, loss, &train::WeightedLoss::name) == 0)
      log::warning("{} has no effect without the loss {}", option.flag(), loss);
  };
  belongs_to(args.simpo_gamma, "simpo");
  belongs_to(args.discopop_tau, "discopop");
  for (const auto& loss : config.losses)
    if (config.label_smoothing > 0 && !train::pair_loss_traits(loss.name).uses_label_smoothing)
      log::warning("{} has no effect on the loss {}", args.label_smoothing.flag(), loss.name);
}

void read_pairs(const Options& options, train::TrainingJob& job) {
  const PreferenceArguments preference_args(options);
  const TemplateArguments template_args(options);
  auto& config = job.preference;
  config.beta = *preference_args.beta;
  config.label_smoothing = *preference_args.label_smoothing;
  config.reference_free = *preference_args.reference_free;
  if (preference_args.ld_alpha.has_value()) config.ld_alpha = *preference_args.ld_alpha;
  if (preference_args.discopop_tau.exists()) config.discopop_tau = *preference_args.discopop_tau;
  config.simpo_gamma = *preference_args.simpo_gamma;
  uses_factory_dialect(options) ? read_factory_losses(preference_args, config) : read_swift_losses(preference_args, config);
  if (config.ld_alpha && config.method != Preference::dpo && !uses_factory_dialect(options)) {
    log::warning("{} has no effect: it belongs to dpo", preference_args.ld_alpha.flag());
    config.ld_alpha.reset();
  }
  // ORPO learns every response of a conversation, the other methods only the last one.
  if (config.method == Preference::orpo && template_args.loss_scale.exists() && !template_args.loss_scale.is_set())
    job.encode.loss_scale = "default";
  note_unused_by_losses(preference_args, config);
  job.loader.pairs = job.eval_loader.pairs = true;
}

// LLaMA-Factory's reward models are language models with a value head, which comes from the newest adapter or the model's folder.
void add_value_head_to(const ModelArguments& args, train::TrainingJob& job) {
  auto adapters = *args.adapters;
  job.load.changes.value_head = adapters.empty() ? job.model_folder : hub::locate_model(adapters.back());
  job.load.changes.head_seed = static_cast<uint64_t>(*args.seed);
  // The LM head does not take part in computing a value.
  if (job.tuner.kind == tuner::TunerType::full &&
      !model::read_config(job.model_folder, job.load.changes.config).tie_word_embeddings)
    job.tuner.parameters.freeze.push_back("lm_head");
}

void read_reward(const Options& options, train::TrainingJob& job) {
  const PreferenceArguments args(options);
  job.loader.pairs = job.eval_loader.pairs = true;
  job.loader.margins = job.eval_loader.margins = true;
  if (uses_factory_dialect(options)) return add_value_head_to(ModelArguments(options), job);
  if (args.center_rewards_coefficient.has_value()) job.preference.center_rewards_coefficient = *args.center_rewards_coefficient;
}

void read_feedback(const Options& options, train::TrainingJob& job) {
  const DataArguments data_args(options);
  const PreferenceArguments preference_args(options);
  auto& config = job.preference;
  const bool factory = uses_factory_dialect(options);
  config.beta = *preference_args.beta;
  config.desirable_weight = *preference_args.desirable_weight;
  config.undesirable_weight = *preference_args.undesirable_weight;
  if (factory) config.rpo_alpha = preference_args.rpo_alpha.value_or(0);
  config.estimates_kl = factory || preference_args.loss_type->front() == "kto";
  job.loader.feedback = {
      .with_kl_pairs = config.estimates_kl, .block = factory ? *data_args.preprocessing_batch_size : 0, .in_file_order = factory};
  job.eval_loader.feedback = job.loader.feedback;
  job.encode.train_last_turn_only = factory;
}

void refuse_reference(const PreferenceArguments& args, std::string_view method) {
  for (const AnyArg& option : {AnyArg(args.ref_model), AnyArg(args.ref_adapters)})
    if (option.has_value())
      throw UserError(ExitCode::usage, fmt::format("{}: {} compares with no reference", option.flag(), method), "leave it out");
}

int64_t reference_bits(const PreferenceArguments& args) {
  if (!args.ref_model_quantization_bit.has_value()) return 0;
  auto bits = *args.ref_model_quantization_bit;
  if (bits != 4 && bits != 8)
    throw UserError(ExitCode::usage, fmt::format("{} is {}", args.ref_model_quantization_bit.flag(), bits), "expected 4 or 8");
  return bits;
}

}  // namespace

std::string training_method(const Options& options) {
  if (options.verb() & kRlhf && !uses_factory_dialect(options)) return *PreferenceArguments(options).rlhf_type;
  if (uses_factory_dialect(options)) return *TrainingArguments(options).stage;
  return options.verb() & kPt ? "pt" : "sft";
}

void check_method(const Options& options) {
  const auto name = training_method(options);
  if (name == "sft" || name == "pt") return;
  if (name == "grpo") return static_cast<void>(policy_objective(options));
  if (name == "ppo" || name == "gkd") return;
  check_losses(options, method_named(name));
}

void apply_preference(const Options& options, train::TrainingJob& job) {
  auto name = training_method(options);
  if (name == "sft" || name == "pt") return;
  check_method(options);
  if (name == "gkd") return apply_distillation(options, job);
  if (name == "grpo") return apply_reinforcement(options, job);
  refuse_teacher(options, name);
  if (name == "ppo") return apply_ppo(options, job);
  auto& config = job.preference;
  config.method = method_named(name);
  note_unused(options, config);
  job.datasets.ranking = config.method != Preference::kto;
  job.datasets.encoded_for = job.datasets.ranking ? data::TemplateMode::rlhf : data::TemplateMode::kto;
  if (config.method == Preference::kto)
    read_feedback(options, job);
  else if (config.method == Preference::rm)
    read_reward(options, job);
  else
    read_pairs(options, job);
  const bool compares = config.method == Preference::dpo || config.method == Preference::kto;
  const auto known_as = config.reference_free                                                  ? "reference_free"
                        : uses_factory_dialect(options) && !compares && !config.losses.empty() ? config.losses.front().name
                                                                                               : name;
  read_reference(options, compares && !config.reference_free, known_as, job);
}

void read_reference(const Options& options, bool needed, std::string_view method, train::TrainingJob& job) {
  const PreferenceArguments args(options);
  auto& reference = job.preference.reference;
  reference.needed = needed;
  if (!needed) return refuse_reference(args, method);
  auto adapters = *args.ref_adapters;
  if (adapters.size() > 1)
    throw UserError(ExitCode::usage, fmt::format("{} names {} adapters", args.ref_adapters.flag(), adapters.size()),
                    "expected one");
  for (const auto& adapter : adapters) reference.adapters.push_back(hub::locate_model(adapter));
  reference.bits = reference_bits(args);
  const PolicyGuidanceArguments guidance_args(options);
  if (*guidance_args.sync_ref_model)
    reference.sync = {.steps = *guidance_args.ref_model_sync_steps, .alpha = *guidance_args.ref_model_mixup_alpha};
  if (!args.ref_model.has_value()) return;
  reference.folder = hub::locate_model(*args.ref_model, *args.ref_model_revision);
  check_model_type(args.ref_model_type, reference.folder);
  const auto config = model::read_config(reference.folder);
  require_generative_model(reference.folder, config);
  auto own = model::read_config(job.model_folder, job.load.changes.config).vocab_size, other = config.vocab_size;
  if (own != other)
    throw UserError(ExitCode::usage,
                    fmt::format("{} has {} tokens in its vocabulary, the model {}", args.ref_model.flag(), other, own),
                    "a reference has the model's own vocabulary");
}

}  // namespace hone::cli
