#include "hone/tinker/twinkle/adapter.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "hone/tinker/wire/json_fields.h"

namespace hone::tinker {
namespace {

// "twinkle.loss.GRPOLoss" and "GRPOLoss" are the same class.
std::string class_in(const Json& body, const char* field) {
  const auto name = required_text(body, field);
  return name.substr(name.rfind('.') + 1);
}

[[noreturn]] void refuse_class(const char* what, const std::string& name, const char* known) {
  throw RequestError(fmt::format("{} {} is not supported by this server; expected {}", what, name, known));
}

// Linear warm-up to 1, then linear or cosine decay to 0.
double warmed_up(const Json& schedule, int64_t step) {
  const auto warmup = static_cast<double>(integer_field(schedule, "num_warmup_steps", 0, 0)),
             all = static_cast<double>(integer_field(schedule, "num_training_steps", 1, 1));
  const auto now = static_cast<double>(step);
  if (now < warmup) return now / std::max(1.0, warmup);
  const double done = std::min(1.0, (now - warmup) / std::max(1.0, all - warmup));
  if (text_field(schedule, "name", "") == "LinearWarmupScheduler") return 1 - done;
  return std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * 2 * real_field(schedule, "num_cycles", 0.5, 0, 1e3) * done)));
}

// torch's LinearLR and CosineAnnealingLR.
double factor_of(const Json& schedule, int64_t step, double rate) {
  if (schedule.is_null()) return 1;
  const auto name = text_field(schedule, "name", "");
  if (name == "LinearLR") {
    const double start = real_field(schedule, "start_factor", 1.0 / 3, 0, 1), end = real_field(schedule, "end_factor", 1, 0, 1);
    const auto all = static_cast<double>(integer_field(schedule, "total_iters", 5, 1));
    return start + (end - start) * std::min(1.0, static_cast<double>(step) / all);
  }
  if (name != "CosineAnnealingLR") return warmed_up(schedule, step);
  const double least = rate > 0 ? real_field(schedule, "eta_min", 0, 0, 1e9) / rate : 0;
  const auto all = static_cast<double>(integer_field(schedule, "T_max", 1, 1));
  return least + (1 - least) * (1 + std::cos(std::numbers::pi * static_cast<double>(step) / all)) / 2;
}

}  // namespace

Json TwinkleAdapter::to_json() const {
  return {{"loss", loss},
          {"optimizer", optimizer},
          {"schedule", schedule},
          {"accumulation", accumulation},
          {"backwards", backwards},
          {"rate_steps", rate_steps},
          {"calls", calls},
          {"units", units},
          {"scale", scale},
          {"max_norm", max_norm},
          {"grad_norm", grad_norm},
          {"loss_sum", loss_sum},
          {"loss_calls", loss_calls},
          {"pairs", pairs},
          {"similarities", similarities}};
}

TwinkleAdapter TwinkleAdapter::from_json(const Json& json) {
  TwinkleAdapter adapter;
  if (!json.is_object()) return adapter;
  adapter.loss = json.value("loss", adapter.loss);
  adapter.optimizer = json.value("optimizer", Json());
  adapter.schedule = json.value("schedule", Json());
  adapter.pairs = json.value("pairs", Json());
  adapter.similarities = json.value("similarities", Json());
  for (const auto& [name, field] :
       {std::pair("accumulation", &TwinkleAdapter::accumulation), std::pair("backwards", &TwinkleAdapter::backwards),
        std::pair("rate_steps", &TwinkleAdapter::rate_steps), std::pair("calls", &TwinkleAdapter::calls),
        std::pair("loss_calls", &TwinkleAdapter::loss_calls)})
    adapter.*field = json.value(name, adapter.*field);
  for (const auto& [name, field] :
       {std::pair("units", &TwinkleAdapter::units), std::pair("scale", &TwinkleAdapter::scale),
        std::pair("max_norm", &TwinkleAdapter::max_norm), std::pair("grad_norm", &TwinkleAdapter::grad_norm),
        std::pair("loss_sum", &TwinkleAdapter::loss_sum)})
    adapter.*field = json.value(name, adapter.*field);
  return adapter;
}

bool TwinkleAdapter::is_step() const { return accumulation == 1 || (backwards > 1 && (backwards - 1) % accumulation == 0); }

double TwinkleAdapter::learning_rate() const {
  const double rate = real_field(optimizer, "lr", 0, 0, 1e9);
  return rate * factor_of(schedule, rate_steps, rate);
}

void TwinkleAdapter::add_pairs(const Json& metrics, double count) {
  constexpr std::string_view kMean = ":mean";
  if (!metrics.contains("rewards/margins:mean")) return;
  if (pairs.is_null()) pairs = {{"count", 0.0}};
  pairs["count"] = pairs["count"].get<double>() + count;
  for (const auto& [name, mean] : metrics.items()) {
    if (!name.starts_with("logps/") && !name.starts_with("rewards/")) continue;
    const auto key = name.substr(0, name.size() - kMean.size());
    pairs[key] = pairs.value(key, 0.0) + mean.get<double>() * count;
  }
}

Json TwinkleAdapter::take_pairs() {
  Json result = Json::object();
  const auto sums = std::exchange(pairs, Json());
  if (sums.is_null()) return result;
  for (const auto& [name, sum] : sums.items()) {
    const double mean = sum.get<double>() / sums["count"].get<double>();
    if (name.starts_with("logps/")) result[name] = fmt::format("{:.2f}", mean);
    if (name.starts_with("rewards/")) result[name] = fmt::format("{:.4f}", mean);
    if (name == "rewards/accuracies") result[name] = fmt::format("{:.1f}%", 100 * mean);
  }
  return result;
}

void TwinkleAdapter::add_similarities(const Json& metrics) {
  if (!metrics.contains("pos_sim:mean")) return;
  const auto of = [&](const char* name) { return metrics.value(name, 0.0); };
  const double anchors = of("anchors:sum"), others = anchors * (anchors - 1);
  if (similarities.is_null()) similarities = {{"min", of("pos_sim_min:min")}, {"max", of("pos_sim_max:max")}};
  const auto add = [&](const char* name, double more) { similarities[name] = similarities.value(name, 0.0) + more; };
  add("positives", of("pos_sim:mean") * anchors), add("anchors", anchors);
  add("negatives", of("neg_sim:mean") * others), add("others", others);
  similarities["min"] = std::min(similarities["min"].get<double>(), of("pos_sim_min:min"));
  similarities["max"] = std::max(similarities["max"].get<double>(), of("pos_sim_max:max"));
}

Json TwinkleAdapter::take_similarities() {
  const auto sums = std::exchange(similarities, Json());
  if (sums.is_null()) return Json::object();
  const auto of = [&](const char* name) { return sums[name].get<double>(); };
  Json result = {{"pos_sim", fmt::format("{:.4f}", of("positives") / of("anchors"))},
                 {"pos_sim_min", fmt::format("{:.4f}", of("min"))},
                 {"pos_sim_max", fmt::format("{:.4f}", of("max"))}};
  if (of("others") > 0) result["neg_sim"] = fmt::format("{:.4f}", of("negatives") / of("others"));
  return result;
}

static Json contrastive_loss(const Json& body) {
  if (has_field(body, "hard_negatives")) throw RequestError("hard_negatives is not supported by this server; expected None");
  const double temperature = real_field(body, "temperature", 0.1, 1e-6, 1e6);
  Json settings = {{"temperature", temperature}, {"fake_neg_margin", real_field(body, "fake_neg_margin", 0.1, 1e-9, 1e9)}};
  settings["use_batch"] = flag_field(body, "use_batch", true) ? 1 : 0;
  for (const char* name : {"mask_fake_negative", "include_qq", "include_dd"})
    settings[name] = flag_field(body, name, false) ? 1 : 0;
  return {{"name", "InfonceLoss"}, {"settings", settings}};
}

static Json preference_loss(const Json& body) {
  if (const auto type = text_field(body, "loss_type", "sigmoid"); type != "sigmoid")
    throw RequestError(fmt::format("loss_type {} of DPOLoss is not supported by this server; expected sigmoid", type));
  if (real_field(body, "label_smoothing", 0, 0, 1) > 0) throw RequestError("label_smoothing is not supported by this server");
  return {{"name", "DPOLoss"},
          {"dpo_beta", real_field(body, "beta", 0.1, 1e-9, 1e9)},
          {"dpo_sft_weight", real_field(body, "sft_weight", 0, 0, 1e9)},
          {"reference_free", flag_field(body, "reference_free", false)}};
}

void set_loss(TwinkleAdapter& adapter, const Json& body) {
  const auto name = class_in(body, "loss_cls");
  if (name != "CrossEntropyLoss" && name != "GRPOLoss" && name != "DPOLoss" && name != "InfonceLoss")
    refuse_class("the loss", name, "CrossEntropyLoss, GRPOLoss, DPOLoss or InfonceLoss");
  Json loss = {{"name", name}};
  if (name == "DPOLoss") {
    loss = preference_loss(body);
  } else if (name == "InfonceLoss") {
    loss = contrastive_loss(body);
  } else if (name == "CrossEntropyLoss") {
    loss["reduction"] = text_field(body, "reduction", "mean");
    if (flag_field(body, "dft", false)) throw RequestError("dft is not supported by this server");
  } else {
    for (const char* penalty : {"beta", "entropy_coef"})
      if (real_field(body, penalty, 0, 0, 1e9) > 0)
        throw RequestError(fmt::format("{} is not supported by this server", penalty));
    loss["epsilon"] = real_field(body, "epsilon", 0.2, 0, 1);
    loss["epsilon_high"] = real_field(body, "epsilon_high", loss["epsilon"].get<double>(), 0, 1e9);
  }
  adapter.loss = loss;
}

void set_optimizer(TwinkleAdapter& adapter, const Json& body) {
  const auto name = class_in(body, "optimizer_cls");
  const double decay = real_field(body, "weight_decay", name == "Adam" ? 0 : 0.01, 0, 1e9);
  if (name != "AdamW" && !(name == "Adam" && decay == 0)) refuse_class("the optimizer", name, "AdamW, or Adam without decay");
  const auto betas = body.value("betas", Json::array({0.9, 0.999}));
  if (!betas.is_array() || betas.size() != 2 || !betas[0].is_number() || !betas[1].is_number())
    throw RequestError("betas: expected two numbers");
  adapter.optimizer = {{"lr", real_field(body, "lr", 1e-5, 0, 1e9)},
                       {"beta1", betas[0]},
                       {"beta2", betas[1]},
                       {"eps", real_field(body, "eps", 1e-8, 0, 1)},
                       {"weight_decay", decay}};
}

void set_schedule(TwinkleAdapter& adapter, const Json& body) {
  const auto name = class_in(body, "scheduler_cls");
  if (name != "LinearLR" && name != "CosineAnnealingLR" && name != "LinearWarmupScheduler" && name != "CosineWarmupScheduler")
    refuse_class("the schedule", name, "LinearLR, CosineAnnealingLR, LinearWarmupScheduler or CosineWarmupScheduler");
  Json schedule = body;
  schedule["name"] = name;
  factor_of(schedule, 0, 1);  // reports an invalid schedule here
  adapter.schedule = schedule;
  adapter.rate_steps = 0;
}

}  // namespace hone::tinker
