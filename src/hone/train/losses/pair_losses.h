// Preference losses as formulas over the log-probabilities of chosen and rejected completions, one value per pair. TRL's names
// and definitions.
#pragma once
#include <string_view>
#include <vector>

#include "hone/device/tensor.h"
#include "hone/train/methods/preference.h"

namespace hone::train {

// Log-probabilities of full completions, float32 [pairs]. Without a reference, its two are zeros.
struct PairLogps {
  Tensor chosen, rejected, reference_chosen, reference_rejected;
};

// Properties of a loss other than its formula.
struct PairLossTraits {
  std::string_view name;
  bool dpo = false, cpo = false;  // which methods have it
  bool uses_label_smoothing = false;
  bool uses_mean_logps = false;  // over a completion's tokens, instead of their sum
};
std::vector<PairLossTraits> pair_loss_traits();
PairLossTraits pair_loss_traits(std::string_view loss);

// [pairs]. `baseline` is the reward baseline of bco_pair, a scalar. "sft" is not a pair loss: it is computed where the tokens are
// available.
Tensor pair_losses(std::string_view loss, const PairLogps& logps, const PreferenceConfig& config, const Tensor& baseline);

// log(odds of the chosen completion / odds of the rejected one), from means over tokens.
Tensor log_odds(const PairLogps& logps);

}  // namespace hone::train
