// Configuration of preference methods: pairs (dpo, cpo, orpo, rm) or single labels (kto).
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hone::train {

enum class Preference { none, dpo, cpo, orpo, kto, rm };

// A synchronized reference: it moves towards the model at regular steps (trl's sync_ref_model, TR-DPO).
struct ReferenceSyncConfig {
  int64_t steps = 512;
  double alpha = 0.6;
};

// The reference of log-ratios. With adapters it is the base model with adapters disabled; else a second model.
struct ReferenceConfig {
  bool needed = false;
  std::filesystem::path folder;                 // of another model; empty: the run's initial weights
  std::vector<std::filesystem::path> adapters;  // that belong to the reference, not to what trains
  int64_t bits = 0;                             // of the weights of a model of its own: 4 or 8; 0: as they are
  std::optional<ReferenceSyncConfig> sync;      // unset: it stays as it is
};

struct WeightedLoss {
  std::string name;  // trl's: sigmoid, hinge, ipo …
  double weight = 1;
};

struct PreferenceConfig {
  Preference method = Preference::none;
  ReferenceConfig reference;
  std::vector<WeightedLoss> losses;
  double beta = 0.1;               // of orpo: the weight of the odds ratio
  double label_smoothing = 0;      // the assumed fraction of wrong labels
  double rpo_alpha = 0;            // weight of the SFT loss on the chosen completions: rpo_alpha, pref_ftx, cpo_alpha
  bool rpo_alpha_by_row = false;   // LLaMA-Factory's: a mean over rows, where ms-swift's is one over tokens
  double bco_weight = 0;           // LLaMA-Factory's: mixes in the BCO loss
  std::optional<double> ld_alpha;  // ld_alpha: of tokens beyond the length of the shorter completion
  double discopop_tau = 0.05;
  double simpo_gamma = 1;
  bool reference_free = false;
  double desirable_weight = 1, undesirable_weight = 1;  // kto: of good completions and of bad ones
  bool estimates_kl = true;  // kto: losses are relative to the estimated KL from the reference; not in apo_zero_unpaired
  std::optional<double> center_rewards_coefficient;  // rm: weight of the penalty on nonzero mean scores

  bool compares_pairs() const { return method == Preference::dpo || method == Preference::cpo || method == Preference::orpo; }
};

}  // namespace hone::train
