#include "hone/engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

namespace hone::engine {
namespace {

using text::TokenId;

struct Candidate {
  TokenId token;
  float logit;
  double probability = 0;
};

bool likelier(const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.token < b.token; }

// The top_k best in order, all of them when k is 0.
std::vector<Candidate> ranked(std::span<const float> logits, int64_t k) {
  std::vector<Candidate> candidates(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) candidates[i] = {static_cast<TokenId>(i), logits[i]};
  size_t kept = k > 0 ? std::min(static_cast<size_t>(k), candidates.size()) : candidates.size();
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(kept), candidates.end(), likelier);
  candidates.resize(kept);
  return candidates;
}

void normalise(std::vector<Candidate>& candidates) {
  double sum = 0;
  for (auto& c : candidates) sum += c.probability = std::exp(static_cast<double>(c.logit) - candidates[0].logit);
  for (auto& c : candidates) c.probability /= sum;
}

// Keeps the smallest leading set whose probability reaches top_p; at least one.
void keep_nucleus(std::vector<Candidate>& candidates, double top_p) {
  if (top_p >= 1.0) return;
  double before = 0;
  size_t kept = 0;
  while (kept < candidates.size() && (kept == 0 || before < top_p)) before += candidates[kept++].probability;
  candidates.resize(kept);
}

void keep_above(std::vector<Candidate>& candidates, double min_p) {
  if (min_p <= 0) return;
  double floor = min_p * candidates[0].probability;
  size_t kept = 1;
  while (kept < candidates.size() && candidates[kept].probability >= floor) ++kept;
  candidates.resize(kept);
}

}  // namespace

void Sampler::penalise_repetition(std::span<float> logits, std::span<const TokenId> context) const {
  if (config_.repetition_penalty == 1.0) return;
  auto penalty = static_cast<float>(config_.repetition_penalty);
  for (TokenId token : std::unordered_set<TokenId>(context.begin(), context.end())) {
    if (static_cast<size_t>(token) >= logits.size()) continue;
    float& logit = logits[static_cast<size_t>(token)];
    logit = logit < 0 ? logit * penalty : logit / penalty;
  }
}

TokenId Sampler::next(std::span<float> logits, std::span<const TokenId> context) {
  penalise_repetition(logits, context);
  if (!config_.sample || config_.temperature <= 0)
    return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  for (float& logit : logits) logit /= static_cast<float>(config_.temperature);
  auto candidates = ranked(logits, config_.top_k);
  normalise(candidates);
  keep_nucleus(candidates, config_.top_p);
  normalise(candidates);
  keep_above(candidates, config_.min_p);
  normalise(candidates);
  double draw = rng_.uniform();
  for (const auto& c : candidates)
    if ((draw -= c.probability) < 0) return c.token;
  return candidates.back().token;
}

}  // namespace hone::engine
