#include "hone/engine/sampler.h"

#include "hone/base/error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace hone::engine {
namespace {

using text::TokenId;
constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr double kColdest = 1e-5;  // below it, scaled logits overflow float, and sampling is greedy anyway

bool contains(const std::vector<TokenId>& tokens, TokenId token) { return std::ranges::find(tokens, token) != tokens.end(); }

// Several comparisons at a time, each in its own lane: a dependent chain over a large vocabulary takes as long as a layer of a
// small model.
float largest_of(std::span<const float> logits) {
  std::array<float, 32> largest;
  largest.fill(kNever);
  size_t i = 0;
  for (; i + largest.size() <= logits.size(); i += largest.size())
    for (size_t j = 0; j < largest.size(); ++j) largest[j] = logits[i + j] > largest[j] ? logits[i + j] : largest[j];
  for (; i < logits.size(); ++i) largest[0] = logits[i] > largest[0] ? logits[i] : largest[0];
  return *std::ranges::max_element(largest);
}

[[noreturn]] void fail_to_sample() {
  throw ConstraintError("no token can be sampled: the request's constraints mask all tokens, or their logits are NaN");
}

TokenId most_likely(std::span<const float> logits) {
  auto largest = largest_of(logits);
  if (largest == kNever) fail_to_sample();
  size_t begin = 0;  // of the first part that has it
  constexpr size_t kPart = 128;
  for (; begin + kPart <= logits.size(); begin += kPart) {
    uint32_t found = 0;
    for (size_t j = 0; j < kPart; ++j) found += logits[begin + j] == largest;
    if (found > 0) break;
  }
  return static_cast<TokenId>(std::ranges::find(logits.subspan(begin), largest) - logits.begin());
}

void forbid(std::span<float> logits, TokenId token) {
  if (static_cast<size_t>(token) < logits.size()) logits[static_cast<size_t>(token)] = kNever;
}

struct Candidate {
  TokenId token;
  float logit;
  double weight = 0;  // exp(logit - max)
};
bool more_likely(const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.token < b.token; }

// The k best, sorted.
std::vector<Candidate> ranked(std::span<const float> logits, size_t k) {
  std::vector<Candidate> all;
  all.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i)
    if (logits[i] > kNever) all.push_back({static_cast<TokenId>(i), logits[i]});  // or NaN
  k = std::min(k, all.size());
  auto end = all.begin() + static_cast<ptrdiff_t>(k);
  if (k < all.size()) std::nth_element(all.begin(), end, all.end(), more_likely);
  std::sort(all.begin(), end, more_likely);
  all.resize(k);
  return all;
}

double total_weight(std::span<const float> logits, float largest) {
  double total = 0;
  for (float logit : logits) total += std::exp(static_cast<double>(logit - largest));
  return total;
}

double weigh(std::vector<Candidate>& candidates) {
  double total = 0;
  for (auto& c : candidates) total += c.weight = std::exp(static_cast<double>(c.logit - candidates[0].logit));
  return total;
}

// Keeps the smallest prefix that reaches `top_p` of `total`; at least one token. False if the candidates do not reach it.
bool keep_nucleus(std::vector<Candidate>& candidates, double top_p, double total) {
  double before = 0;
  size_t kept = 0;
  while (kept < candidates.size() && (kept == 0 || before < top_p * total)) before += candidates[kept++].weight;
  bool reached = before >= top_p * total;
  candidates.resize(kept);
  return reached;
}

// top_k, then top_p of the remainder, then min_p: the order of transformers.
std::vector<Candidate> candidates_of(std::span<const float> logits, const SamplingParams& params) {
  std::vector<Candidate> candidates;
  if (params.top_k > 0) {
    candidates = ranked(logits, static_cast<size_t>(params.top_k));
    double total = weigh(candidates);
    if (params.top_p < 1.0) keep_nucleus(candidates, params.top_p, total);
  } else if (params.top_p < 1.0) {
    double total = total_weight(logits, largest_of(logits));
    if (std::isnan(total)) fail_to_sample();
    for (size_t k = 256;; k *= 8) {  // a nucleus is almost always small
      candidates = ranked(logits, k);
      weigh(candidates);
      if (keep_nucleus(candidates, params.top_p, total) || k >= logits.size()) break;
    }
  } else {
    candidates = ranked(logits, logits.size());
    weigh(candidates);
  }
  if (params.min_p > 0 && !candidates.empty()) {
    auto unlikely =
        std::find_if(candidates.begin() + 1, candidates.end(), [&](const Candidate& c) { return c.weight < params.min_p; });
    candidates.erase(unlikely, candidates.end());
  }
  return candidates;
}

// Every token may be drawn: no sorting is needed.
TokenId draw_from_all(std::span<const float> logits, double uniform) {
  float largest = largest_of(logits);
  if (largest == kNever) fail_to_sample();
  std::vector<double> weights(logits.size());
  double total = 0;
  for (size_t i = 0; i < logits.size(); ++i) total += weights[i] = std::exp(static_cast<double>(logits[i] - largest));
  if (std::isnan(total)) fail_to_sample();
  double left = uniform * total;
  for (size_t i = 0; i < weights.size(); ++i)
    if ((left -= weights[i]) < 0) return static_cast<TokenId>(i);
  return most_likely(logits);
}

TokenId draw(const std::vector<Candidate>& candidates, double uniform) {
  if (candidates.empty()) fail_to_sample();
  double total = 0;
  for (const auto& c : candidates) total += c.weight;
  double left = uniform * total;
  for (const auto& c : candidates)
    if ((left -= c.weight) < 0) return c.token;
  return candidates.front().token;
}

bool is_plain_but_for_filters(const SamplingParams& p) {
  return p.num_beams == 1 && p.min_p <= 0 && p.repetition_penalty == 1.0 && p.presence_penalty == 0 && p.frequency_penalty == 0 &&
         p.logit_bias.empty() && p.bad_words.empty() && !p.constraint && !p.logprobs;
}

}  // namespace

Sampler::Sampler(const SamplingParams& params, std::span<const TokenId> prompt)
    : params_(params),
      plain_but_filters_(is_plain_but_for_filters(params)),
      plain_(plain_but_filters_ && params.top_k == 0 && params.top_p >= 1.0) {
  if (params.repetition_penalty == 1.0) return;
  prompt_tokens_.assign(prompt.begin(), prompt.end());
  std::ranges::sort(prompt_tokens_);
  prompt_tokens_.erase(std::unique(prompt_tokens_.begin(), prompt_tokens_.end()), prompt_tokens_.end());
}

bool Sampler::is_end(TokenId token) const {
  // Under a constraint, an end token is chosen only if the text is complete, and often nothing else may follow.
  return (!params_.ignore_eos || params_.constraint) && contains(params_.eos_token_ids, token);
}
bool Sampler::is_stop(TokenId token) const { return contains(params_.stop_tokens, token); }

uint64_t Sampler::draw_key(size_t ahead) const {
  Rng rng(params_.seed);
  rng.seek(chosen_.size() + ahead);
  return rng.next();
}

void Sampler::accept(TokenId token) {
  chosen_.push_back(token);
  ++counts_[token];
  if (params_.constraint) state_ = params_.constraint->next(state_, token);
}

void Sampler::forbid_bad_words(std::span<float> logits) const {
  for (const auto& word : params_.bad_words) {
    if (word.empty()) continue;
    size_t before = word.size() - 1;
    if (chosen_.size() >= before && std::equal(word.begin(), word.end() - 1, chosen_.end() - static_cast<ptrdiff_t>(before)))
      forbid(logits, word.back());
  }
}

void Sampler::mask(std::span<float> logits) const {
  for (auto [token, bias] : params_.logit_bias)
    if (static_cast<size_t>(token) < logits.size()) logits[static_cast<size_t>(token)] += bias;
  forbid_bad_words(logits);
  if (params_.constraint) {
    auto allowed = params_.constraint->mask(state_);
    for (size_t i = 0; i < logits.size(); ++i)
      if (!allowed->allows(static_cast<TokenId>(i))) logits[i] = kNever;
  }
  // A constraint takes precedence over min_tokens: if only the end token is allowed, it is chosen.
  if (needs_length() && (!params_.constraint || can_continue(logits))) {
    for (auto token : params_.eos_token_ids) forbid(logits, token);
    for (auto token : params_.stop_tokens) forbid(logits, token);
  }
}

bool Sampler::can_continue(std::span<const float> logits) const {
  for (size_t i = 0; i < logits.size(); ++i) {
    auto token = static_cast<TokenId>(i);
    if (logits[i] > kNever && !contains(params_.eos_token_ids, token) && !contains(params_.stop_tokens, token)) return true;
  }
  return false;
}

void Sampler::penalize(std::span<float> logits) const {
  auto repeat = static_cast<float>(params_.repetition_penalty);
  auto repeated = [&](TokenId token) {
    if (static_cast<size_t>(token) >= logits.size()) return;
    float& logit = logits[static_cast<size_t>(token)];
    logit = logit < 0 ? logit * repeat : logit / repeat;
  };
  if (repeat != 1.0f) {
    for (auto token : prompt_tokens_) repeated(token);
    for (auto [token, count] : counts_)
      if (!std::ranges::binary_search(prompt_tokens_, token)) repeated(token);
  }
  for (auto [token, count] : counts_)
    if (static_cast<size_t>(token) < logits.size())
      logits[static_cast<size_t>(token)] -= static_cast<float>(params_.presence_penalty + params_.frequency_penalty * count);
}

TokenId Sampler::sample(std::span<float> logits) const {
  mask(logits);
  penalize(logits);
  if (params_.temperature <= 0) return most_likely(logits);
  for (float& logit : logits) logit /= static_cast<float>(params_.temperature);
  double uniform = static_cast<double>(draw_key() >> 11) * 0x1.0p-53;
  if (params_.top_k == 0 && params_.top_p >= 1.0 && params_.min_p <= 0) return draw_from_all(logits, uniform);
  return draw(candidates_of(logits, params_), uniform);
}

std::vector<BeamCandidate> Sampler::continuations(std::span<float> logits, size_t count, uint64_t beam) const {
  float largest = largest_of(logits);
  auto normalizer = static_cast<float>(largest + std::log(total_weight(logits, largest)));
  for (float& logit : logits) logit -= normalizer;
  mask(logits);
  penalize(logits);
  if (largest_of(logits) == kNever) fail_to_sample();
  std::vector<BeamCandidate> found;
  if (params_.temperature <= 0) {
    for (const auto& c : ranked(logits, count)) found.push_back({c.token, c.logit, c.logit});
    return found;
  }
  for (float& logit : logits) logit /= static_cast<float>(params_.temperature);
  Rng noise(draw_key(), beam);
  for (const auto& c : candidates_of(logits, params_)) {  // the maximum of log-probabilities plus Gumbel noise is such a draw
    auto gumbel = static_cast<float>(-std::log(-std::log(noise.uniform() + 0x1.0p-54)));
    found.push_back({c.token, c.logit, c.logit + gumbel});
  }
  count = std::min(count, found.size());
  std::ranges::partial_sort(found, found.begin() + static_cast<ptrdiff_t>(count), std::greater(), &BeamCandidate::order);
  found.resize(count);
  return found;
}

SamplingParams complete_sampling_params(SamplingParams params) {
  if (params.temperature < kColdest) params.temperature = 0;
  return params;
}

PositionLogprobs position_logprobs(std::span<const float> logits, TokenId chosen, int64_t count,
                                   std::span<const TokenId> others) {
  HONE_CHECK(static_cast<size_t>(chosen) < logits.size(), "token {} of {}", chosen, logits.size());
  float largest = largest_of(logits);
  auto normalizer = static_cast<float>(largest + std::log(total_weight(logits, largest)));
  float own = logits[static_cast<size_t>(chosen)];
  PositionLogprobs result{.chosen = {chosen, own - normalizer}};
  result.token_rank = 1 + std::ranges::count_if(logits, [&](float logit) { return logit > own; });
  if (count > 0)
    for (const auto& c : ranked(logits, static_cast<size_t>(count))) result.top.push_back({c.token, c.logit - normalizer});
  for (auto token : others) result.others.push_back({token, logits[static_cast<size_t>(token)] - normalizer});
  return result;
}

}  // namespace hone::engine
