#include "hone/cli/jobs/preference_job.h"

#include <fmt/ranges.h>

#include "hone/base/log.h"
#include "hone/cli/jobs/data_job.h"
#include "hone/cli/jobs/reference_job.h"
#include "hone/cli/jobs/reinforcement_job.h"
#include "hone/cli/jobs/reward_job.h"

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
  if (speaks_factory(options)) return method == Preference::dpo ? kFactoryLosses : kOne;
  return method == Preference::dpo ? kDpoLosses : method == Preference::cpo ? kCpoLosses : method == Preference::kto ? kKtoLosses : kOne;
}

void check_losses(const Options& options, Preference method) {
  const auto& known = losses_of(options, method);
  if (known.empty() || options.setting("loss_type").undecided) return;
  const auto names = asked_losses(options);
  const bool several = method == Preference::dpo && !speaks_factory(options);
  if (names.empty() || (names.size() > 1 && !several))
    throw UserError(ExitCode::usage, fmt::format("{} names {} losses, and {} has one", options.shown("loss_type"), names.size(), training_method(options)),
                    "ms-swift's dpo alone adds up several, with weights");
  for (const auto& name : names)
    if (!std::ranges::count(known, name))
      throw UserError(ExitCode::usage,
                      fmt::format("{} {} does not go with {}", options.shown("loss_type"), name, training_method(options)),
                      fmt::format("expected {}", fmt::join(known, ", ")));
}

void read_swift_losses(const Options& options, PreferenceConfig& config) {
  auto names = config.method == Preference::orpo ? std::vector<std::string>{"orpo"} : asked_losses(options);
  auto weights = options.reals("loss_weights");
  if (config.method != Preference::dpo && !weights.empty())
    throw UserError(ExitCode::usage, fmt::format("{}: several losses with weights are added up for dpo alone", options.shown("loss_weights")), "leave it out");
  if (!weights.empty() && weights.size() != names.size())
    throw UserError(ExitCode::usage,
                    fmt::format("{} has {} numbers for {} losses", options.shown("loss_weights"), weights.size(), names.size()),
                    "give one weight for each loss");
  for (size_t i = 0; i < names.size(); ++i) config.losses.push_back({names[i], weights.empty() ? 1.0 : weights[i]});
  if (config.method == Preference::dpo && options.has("rpo_alpha")) config.answer_loss = options.real("rpo_alpha");
  if (config.method == Preference::cpo) config.answer_loss = options.real("cpo_alpha");
  if (config.method == Preference::orpo) config.answer_loss = 1;
  if (names.front() == "simpo" && config.answer_loss > 0)
    log::info("{} {} adds the chosen answers' own loss to SimPO; 0 is SimPO alone", options.shown("cpo_alpha"),
              config.answer_loss);
}

// `stage: dpo` is all of them, told apart by pref_loss.
void read_factory_losses(const Options& options, PreferenceConfig& config) {
  const auto loss = asked_losses(options).front();
  if (loss == "orpo") config.method = Preference::orpo;
  if (loss == "simpo") config.method = Preference::cpo;
  if (loss != "sigmoid" && config.label_smoothing > 1e-6)
    throw UserError(ExitCode::usage,
                    fmt::format("{} goes with the loss sigmoid alone, not with {}", options.shown("label_smoothing"), loss));
  config.losses = {{loss, 1}};
  config.answer_loss = (loss == "orpo" ? 1 : 0) + options.real("rpo_alpha");
  config.answer_loss_by_row = true;
  if (config.method == Preference::dpo) config.bco_weight = options.real("pref_bco_weight");
}

// Settings of losses, given to a method that has no choice of them.
void note_unused(const Options& options, const PreferenceConfig& config) {
  const auto name = training_method(options);
  auto note = [&](const char* option) {
    if (options.knows(option) && options.given(option)) log::warning("{} has no effect on {}", options.shown(option), name);
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
      log::warning("{} has no effect on the loss {}", options.shown("label_smoothing"), loss.name);
    if (config.label_smoothing == 0.5 && loss.name == "robust")
      throw UserError(ExitCode::usage,
                      fmt::format("{} is 0.5, where the loss robust divides by zero", options.shown("label_smoothing")),
                      "choose a number below 0.5");
  }
}

void read_pairs(const Options& options, train::TrainingJob& job) {
  auto& config = job.preference;
  config.beta = options.real("beta");
  config.label_smoothing = options.real("label_smoothing");
  config.reference_free = options.knows("reference_free") && options.flag("reference_free");
  if (options.has("ld_alpha")) config.length_weight = options.real("ld_alpha");
  if (options.knows("discopop_tau")) config.discopop_tau = options.real("discopop_tau");
  config.simpo_gamma = options.real("simpo_gamma");
  speaks_factory(options) ? read_factory_losses(options, config) : read_swift_losses(options, config);
  if (config.length_weight && config.method != Preference::dpo && !speaks_factory(options)) {
    log::warning("{} has no effect: it belongs to dpo", options.shown("ld_alpha"));
    config.length_weight.reset();
  }
  // ORPO learns every answer of a conversation, the others the last one.
  if (config.method == Preference::orpo && options.knows("loss_scale") && !options.given("loss_scale"))
    job.encode.loss_scale = "default";
  if (!(config.beta > 0))
    throw UserError(ExitCode::usage, fmt::format("{} is {}", options.shown("beta"), config.beta), "expected a number above 0");
  note_smoothing(options, config);
  job.loader.pairs = job.eval_loader.pairs = true;
}

}  // namespace

std::string training_method(const Options& options) {
  if (options.verb() & kRlhf && !speaks_factory(options)) return options.text("rlhf_type");
  if (speaks_factory(options)) return options.text("stage");
  return options.verb() & kPt ? "pt" : "sft";
}

void check_method(const Options& options) {
  const auto name = training_method(options);
  if (name == "sft" || name == "pt") return;
  if (name == "grpo") return static_cast<void>(policy_objective(options));
  const auto method = method_named(name);
  if (method == Preference::none)
    throw UserError(ExitCode::usage,
                    fmt::format("{} is \"{}\", which is not in this version",
                                options.shown(speaks_factory(options) ? "stage" : "rlhf_type"), name),
                    speaks_factory(options) ? "expected sft, pt, rm, dpo or kto; `hone rlhf --rlhf_type grpo` trains by rewards" : "expected dpo, cpo, simpo, orpo, kto, rm or grpo");
  check_losses(options, method);
}

void apply_preference(const Options& options, train::TrainingJob& job) {
  auto name = training_method(options);
  if (name == "sft" || name == "pt") return;
  check_method(options);
  if (name == "grpo") return apply_reinforcement(options, job);
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
  const auto known_as = config.reference_free ? "reference_free" : speaks_factory(options) && !compares && !config.losses.empty() ? config.losses.front().name : name;
  read_reference(options, compares && !config.reference_free, known_as, job);
}

}  // namespace hone::cli
