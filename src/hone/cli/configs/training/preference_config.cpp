#include "hone/cli/configs/training/preference_config.h"

#include <fmt/ranges.h>

#include "hone/base/log.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/training/distillation_config.h"
#include "hone/cli/configs/training/ppo_config.h"
#include "hone/cli/configs/training/reference_config.h"
#include "hone/cli/configs/training/reinforcement_config.h"
#include "hone/cli/configs/training/reward_config.h"

namespace hone::cli {
namespace {

using train::Preference;
using train::PreferenceConfig;

const std::vector<std::string> kDpoLosses = {"sigmoid",   "hinge", "ipo",          "exo_pair", "nca_pair", "robust",   "bco_pair",
                                             "sppo_hard", "aot",   "aot_unpaired", "apo_zero", "apo_down", "discopop", "sft"};
const std::vector<std::string> kCpoLosses = {"sigmoid", "hinge", "ipo", "simpo"};
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

// trl calls one of them by two names.
std::vector<std::string> asked_losses(const Options& options) {
  auto names = options.list("loss_type");
  for (auto& name : names)
    if (name == "aot_pair") name = "aot_unpaired";
  return names;
}

// Empty: the method has one loss.
const std::vector<std::string>& losses_of(const Options& options, Preference method) {
  static const std::vector<std::string> kOne;
  if (uses_factory_dialect(options)) return method == Preference::dpo ? kFactoryLosses : kOne;
  return method == Preference::dpo   ? kDpoLosses
         : method == Preference::cpo ? kCpoLosses
         : method == Preference::kto ? kKtoLosses
                                     : kOne;
}

void check_losses(const Options& options, Preference method) {
  const auto& known = losses_of(options, method);
  if (known.empty() || options.setting("loss_type").is_auto) return;
  const auto names = asked_losses(options);
  const bool several = method == Preference::dpo && !uses_factory_dialect(options);
  if (names.empty() || (names.size() > 1 && !several))
    throw UserError(ExitCode::usage,
                    fmt::format("{} names {} losses, and {} has one", options.display_name("loss_type"), names.size(),
                                training_method(options)),
                    "ms-swift's dpo alone adds up several, with weights");
  for (const auto& name : names)
    if (!std::ranges::count(known, name))
      throw UserError(ExitCode::usage,
                      fmt::format("{} {} does not go with {}", options.display_name("loss_type"), name, training_method(options)),
                      fmt::format("expected {}", fmt::join(known, ", ")));
}

void read_swift_losses(const Options& options, PreferenceConfig& config) {
  auto names = config.method == Preference::orpo ? std::vector<std::string>{"orpo"} : asked_losses(options);
  auto weights = options.reals("loss_weights");
  if (config.method != Preference::dpo && !weights.empty())
    throw UserError(
        ExitCode::usage,
        fmt::format("{}: several losses with weights are added up for dpo alone", options.display_name("loss_weights")),
        "leave it out");
  if (!weights.empty() && weights.size() != names.size())
    throw UserError(
        ExitCode::usage,
        fmt::format("{} has {} numbers for {} losses", options.display_name("loss_weights"), weights.size(), names.size()),
        "give one weight for each loss");
  for (size_t i = 0; i < names.size(); ++i) config.losses.push_back({names[i], weights.empty() ? 1.0 : weights[i]});
  if (config.method == Preference::dpo && options.has("rpo_alpha")) config.rpo_alpha = options.real("rpo_alpha");
  if (config.method == Preference::cpo) config.rpo_alpha = options.real("cpo_alpha");
  if (config.method == Preference::orpo) config.rpo_alpha = 1;
  if (names.front() == "simpo" && config.rpo_alpha > 0)
    log::info("{} {} adds the SFT loss of the chosen completions to SimPO; 0 is SimPO alone", options.display_name("cpo_alpha"),
              config.rpo_alpha);
}

// `stage: dpo` is all of them, told apart by pref_loss.
void read_factory_losses(const Options& options, PreferenceConfig& config) {
  const auto loss = asked_losses(options).front();
  if (loss == "orpo") config.method = Preference::orpo;
  if (loss == "simpo") config.method = Preference::cpo;
  if (loss != "sigmoid" && config.label_smoothing > 1e-6)
    throw UserError(ExitCode::usage, fmt::format("{} goes with the loss sigmoid alone, not with {}",
                                                 options.display_name("label_smoothing"), loss));
  config.losses = {{loss, 1}};
  config.rpo_alpha = (loss == "orpo" ? 1 : 0) + options.real("rpo_alpha");
  config.rpo_alpha_by_row = true;
  if (config.method == Preference::dpo) config.bco_weight = options.real("pref_bco_weight");
}

// Settings of losses, given to a method that has no choice of them.
void note_unused(const Options& options, const PreferenceConfig& config) {
  const auto name = training_method(options);
  auto note = [&](const char* option) {
    if (options.has_option(option) && options.is_set(option))
      log::warning("{} has no effect on {}", options.display_name(option), name);
  };
  if (losses_of(options, config.method).empty() && asked_losses(options) != std::vector{name}) note("loss_type");
  if (config.method == Preference::rm) note("beta"), note("label_smoothing");
}

// Formulas that label smoothing has no place in.
void note_smoothing(const Options& options, const PreferenceConfig& config) {
  static const std::vector<std::string> kWithout = {"hinge",    "ipo",      "bco_pair", "sppo_hard", "nca_pair", "apo_zero",
                                                    "apo_down", "discopop", "sft",      "orpo",      "kto_pair"};
  for (const auto& loss : config.losses) {
    if (config.label_smoothing > 0 && std::ranges::count(kWithout, loss.name))
      log::warning("{} has no effect on the loss {}", options.display_name("label_smoothing"), loss.name);
    if (config.label_smoothing == 0.5 && loss.name == "robust")
      throw UserError(ExitCode::usage,
                      fmt::format("{} is 0.5, where the loss robust divides by zero", options.display_name("label_smoothing")),
                      "choose a number below 0.5");
  }
}

void read_pairs(const Options& options, train::TrainingJob& job) {
  auto& config = job.preference;
  config.beta = options.real("beta");
  config.label_smoothing = options.real("label_smoothing");
  config.reference_free = options.has_option("reference_free") && options.flag("reference_free");
  if (options.has("ld_alpha")) config.ld_alpha = options.real("ld_alpha");
  if (options.has_option("discopop_tau")) config.discopop_tau = options.real("discopop_tau");
  config.simpo_gamma = options.real("simpo_gamma");
  uses_factory_dialect(options) ? read_factory_losses(options, config) : read_swift_losses(options, config);
  if (config.ld_alpha && config.method != Preference::dpo && !uses_factory_dialect(options)) {
    log::warning("{} has no effect: it belongs to dpo", options.display_name("ld_alpha"));
    config.ld_alpha.reset();
  }
  // ORPO learns every answer of a conversation, the others the last one.
  if (config.method == Preference::orpo && options.has_option("loss_scale") && !options.is_set("loss_scale"))
    job.encode.loss_scale = "default";
  if (!(config.beta > 0))
    throw UserError(ExitCode::usage, fmt::format("{} is {}", options.display_name("beta"), config.beta),
                    "expected a number above 0");
  note_smoothing(options, config);
  job.loader.pairs = job.eval_loader.pairs = true;
}

}  // namespace

std::string training_method(const Options& options) {
  if (options.verb() & kRlhf && !uses_factory_dialect(options)) return options.text("rlhf_type");
  if (uses_factory_dialect(options)) return options.text("stage");
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
  refuse_teacher(options, name);
  if (name == "grpo") return apply_reinforcement(options, job);
  if (name == "ppo") return apply_ppo(options, job);
  auto& config = job.preference;
  config.method = method_named(name);
  note_unused(options, config);
  job.datasets.ranking = config.method != Preference::kto;
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

}  // namespace hone::cli
