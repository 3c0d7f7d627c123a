// Samples one token from one row of logits for one request: penalties, masks, constraint and random stream.
#pragma once
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "hone/base/rng.h"
#include "hone/engine/constraints/constraint.h"
#include "hone/engine/request.h"

namespace hone::engine {

// A candidate token of a beam search and its log-probability; `order` ranks candidates (the same, or with noise when sampling).
struct BeamCandidate {
  text::TokenId token = 0;
  float logprob = 0, order = 0;
};

// Normalized sampling parameters: a temperature so low that only the most likely token can be sampled becomes 0.
SamplingParams complete_sampling_params(SamplingParams params);

class Sampler {
 public:
  Sampler(const SamplingParams& params, std::span<const text::TokenId> prompt);

  // Samples the token after the `chosen` ones accepted so far. `logits` are the model's own and are changed in place. Throws
  // ConstraintError, as the next two do, if no token is allowed or a constraint exceeds its limits.
  text::TokenId sample(std::span<float> logits) const;
  // For beams: the `count` best candidates, best first. Masks and penalties apply to log-probabilities, as in transformers; at a
  // temperature the tokens are sampled without replacement, differently for each `beam`.
  std::vector<BeamCandidate> continuations(std::span<float> logits, size_t count, uint64_t beam) const;
  void accept(text::TokenId token);

  // True if sampling needs only temperature and seed, so that the device can do it.
  bool needs_only_temperature() const { return plain_ && !needs_length(); }
  bool needs_only_top_k_top_p() const { return plain_but_filters_ && !needs_length(); }  // top_k and top_p besides
  uint64_t draw_key(size_t ahead = 0) const;  // for such a device: unique per position and seed; `ahead` of the next

  bool is_end(text::TokenId token) const;   // ends the completion, not part of it
  bool is_stop(text::TokenId token) const;  // ends the completion as its last token

 private:
  bool needs_length() const { return static_cast<int64_t>(chosen_.size()) < params_.min_tokens; }
  void mask(std::span<float> logits) const;
  bool can_continue(std::span<const float> logits) const;
  void forbid_bad_words(std::span<float> logits) const;
  void penalize(std::span<float> logits) const;

  SamplingParams params_;
  bool plain_but_filters_, plain_;
  std::vector<text::TokenId> chosen_;
  std::unordered_map<text::TokenId, int32_t> counts_;  // in the completion
  std::vector<text::TokenId> prompt_tokens_;           // distinct, only for the repetition penalty
  Constraint::State state_ = Constraint::kStart;
};

// Log-probabilities of the raw logits: of `chosen`, of the `count` most likely, and of `others`.
PositionLogprobs position_logprobs(std::span<const float> logits, text::TokenId chosen, int64_t count,
                                   std::span<const text::TokenId> others = {});

}  // namespace hone::engine
