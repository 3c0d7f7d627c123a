#include "hone/train/losses/pair_losses.h"

#include <cmath>

#include "hone/base/error.h"

namespace hone::train {
namespace {

// The terms of the formulas: log-ratios to the reference, and the margin of the pair.
struct PairTerms {
  const PairLogps& logps;
  const PreferenceConfig& config;
  Tensor chosen, rejected;  // log(p / p of the reference)
  Tensor margin;            // between the two
  const Tensor& baseline;
};

// Log-sigmoid loss with label smoothing: the label is wrong with the given probability.
Tensor doubted(const Tensor& scaled, double smoothing) {
  return -at::log_sigmoid(scaled) * (1 - smoothing) - at::log_sigmoid(-scaled) * smoothing;
}

Tensor sigmoid_loss(const PairTerms& pair) { return doubted(pair.config.beta * pair.margin, pair.config.label_smoothing); }

Tensor hinge(const PairTerms& pair) { return at::relu(1 - pair.config.beta * pair.margin); }

Tensor ipo(const PairTerms& pair) { return (pair.margin - 1 / (2 * pair.config.beta)).square(); }

Tensor simpo(const PairTerms& pair) {
  return doubted(pair.config.beta * pair.margin - pair.config.simpo_gamma, pair.config.label_smoothing);
}

Tensor robust(const PairTerms& pair) {
  const double doubt = pair.config.label_smoothing;
  auto scaled = pair.config.beta * pair.margin;
  return (-at::log_sigmoid(scaled) * (1 - doubt) + at::log_sigmoid(-scaled) * doubt) / (1 - 2 * doubt);
}

Tensor exo_pair(const PairTerms& pair) {
  constexpr double kLeastDoubt = 1e-3;  // without any tokens the loss would be infinite
  const double doubt = pair.config.label_smoothing > 0 ? pair.config.label_smoothing : kLeastDoubt;
  auto scaled = pair.config.beta * pair.margin;
  return scaled.sigmoid() * (at::log_sigmoid(scaled) - std::log(1 - doubt)) +
         (-scaled).sigmoid() * (at::log_sigmoid(-scaled) - std::log(doubt));
}

Tensor nca_pair(const PairTerms& pair) {
  auto chosen = pair.config.beta * pair.chosen, rejected = pair.config.beta * pair.rejected;
  return -at::log_sigmoid(chosen) - 0.5 * at::log_sigmoid(-chosen) - 0.5 * at::log_sigmoid(-rejected);
}

Tensor bco_pair(const PairTerms& pair) {
  return -at::log_sigmoid(pair.config.beta * pair.chosen - pair.baseline) -
         at::log_sigmoid(-(pair.config.beta * pair.rejected - pair.baseline));
}

Tensor sppo_hard(const PairTerms& pair) {
  const double half = 0.5 / pair.config.beta;
  return (pair.chosen - half).square() + (pair.rejected + half).square();
}

Tensor sorted(const Tensor& values) { return std::get<0>(values.sort(0)); }

// The distributions over a batch are compared by quantiles.
Tensor aot(const PairTerms& pair) {
  auto apart =
      sorted(pair.logps.chosen - pair.logps.rejected) - sorted(pair.logps.reference_chosen - pair.logps.reference_rejected);
  return doubted(pair.config.beta * apart, pair.config.label_smoothing);
}

Tensor aot_unpaired(const PairTerms& pair) {
  return doubted(pair.config.beta * (sorted(pair.chosen) - sorted(pair.rejected)), pair.config.label_smoothing);
}

Tensor apo_zero(const PairTerms& pair) {
  return 1 - (pair.config.beta * pair.chosen).sigmoid() + (pair.config.beta * pair.rejected).sigmoid();
}

Tensor apo_down(const PairTerms& pair) {
  return (pair.config.beta * pair.chosen).sigmoid() + 1 - (pair.config.beta * (pair.chosen - pair.rejected)).sigmoid();
}

Tensor discopop(const PairTerms& pair) {
  auto scaled = pair.config.beta * pair.margin;
  auto share = (scaled / pair.config.discopop_tau).sigmoid();
  return -at::log_sigmoid(scaled) * (1 - share) + (-scaled).exp() * share;
}

// For a pair: the distance of each completion from the mean shift of the other kind.
Tensor kto_pair(const PairTerms& pair) {
  auto drift = [](const Tensor& ratios) { return ratios.detach().mean().clamp_min(0); };
  auto chosen = 1 - (pair.config.beta * (pair.chosen - drift(pair.rejected))).sigmoid();
  auto rejected = 1 - (pair.config.beta * (drift(pair.chosen) - pair.rejected)).sigmoid();
  return (chosen + rejected) / 2;
}

Tensor orpo(const PairTerms& pair) { return -pair.config.beta * at::log_sigmoid(log_odds(pair.logps)); }

struct PairLoss {
  PairLossTraits traits;
  Tensor (*formula)(const PairTerms&);
};
constexpr bool kSmoothed = true, kOfMeans = true;

constexpr PairLoss kPairLosses[] = {
    {{"sigmoid", /*dpo=*/true, /*cpo=*/true, kSmoothed}, sigmoid_loss},
    {{"hinge", true, true}, hinge},
    {{"ipo", true, true, !kSmoothed, kOfMeans}, ipo},
    {{"exo_pair", true, false, kSmoothed}, exo_pair},
    {{"nca_pair", true}, nca_pair},
    {{"robust", true, false, kSmoothed}, robust},
    {{"bco_pair", true}, bco_pair},
    {{"sppo_hard", true}, sppo_hard},
    {{"aot", true, false, kSmoothed}, aot},
    {{"aot_unpaired", true, false, kSmoothed}, aot_unpaired},
    {{"apo_zero", true}, apo_zero},
    {{"apo_down", true}, apo_down},
    {{"discopop", true}, discopop},
    {{"sft", true}, nullptr},  // tokens, not pairs
    {{"kto_pair"}, kto_pair},
    {{"orpo", false, false, !kSmoothed, kOfMeans}, orpo},
    {{"simpo", false, true, kSmoothed, kOfMeans}, simpo},
};

const PairLoss& pair_loss(std::string_view name) {
  for (const auto& loss : kPairLosses)
    if (loss.traits.name == name) return loss;
  HONE_CHECK(false, "{} is not a loss of pairs", name);
}

// log(1 - e^x) for negative x: the expm1 branch is accurate near zero, the log1p branch elsewhere.
Tensor log_one_minus_exp(const Tensor& x) {
  constexpr double kMinusLn2 = -0.6931471805599453;
  return at::where(x > kMinusLn2, (-at::expm1(x)).log(), at::log1p(-x.exp()));
}

}  // namespace

std::vector<PairLossTraits> pair_loss_traits() {
  std::vector<PairLossTraits> all;
  for (const auto& loss : kPairLosses) all.push_back(loss.traits);
  return all;
}

PairLossTraits pair_loss_traits(std::string_view loss) { return pair_loss(loss).traits; }

Tensor log_odds(const PairLogps& logps) {
  return (logps.chosen - logps.rejected) - (log_one_minus_exp(logps.chosen) - log_one_minus_exp(logps.rejected));
}

Tensor pair_losses(std::string_view loss, const PairLogps& logps, const PreferenceConfig& config, const Tensor& baseline) {
  auto chosen = logps.chosen - logps.reference_chosen, rejected = logps.rejected - logps.reference_rejected;
  auto margin = (logps.chosen - logps.rejected) - (logps.reference_chosen - logps.reference_rejected);
  const auto formula = pair_loss(loss).formula;
  HONE_CHECK(formula, "{} is not a loss of pairs", loss);
  return formula({logps, config, chosen, rejected, margin, baseline});
}

}  // namespace hone::train
