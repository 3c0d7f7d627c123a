#include "hone/engine/chunk_sampler.h"

#include <algorithm>
#include <cmath>

#include "hone/engine/beam_search.h"

namespace hone::engine {
namespace {

text::TokenId sample_with_logprobs(Sequence& sequence, std::span<float> logits, RequestOutput& output) {
  const auto& sampling = sequence.request.sampling;
  if (!sampling.logprobs) return sequence.sampler.sample(logits);
  std::vector<float> raw(logits.begin(), logits.end());
  if (const auto temperature = static_cast<float>(sampling.logprobs_temperature); temperature != 1)
    for (auto& logit : raw) logit /= temperature;
  auto token = sequence.sampler.sample(logits);
  output.logprobs.push_back(position_logprobs(raw, token, *sampling.logprobs, sampling.logprob_token_ids));
  return token;
}

}  // namespace

RequestOutput ChunkSampler::sample(const ScheduledChunk& chunk, size_t index) const {
  try {
    return advance(chunk, index);
  } catch (const ConstraintError& problem) {
    const bool broken = has_nan(index);
    return {.id = chunk.sequence->id,
            .finish = FinishReason::error,
            .error = broken ? kModelComputesNan : problem.what(),
            .model_broken = broken};
  }
}

bool ChunkSampler::has_nan(size_t index) const {
  const auto& found = logits_.chunks[index];
  bool any = found.has_nan;
  for (int64_t i = 0; found.rows && i < found.count; ++i)
    any |= std::ranges::any_of(logits_.row(index, i), [](float logit) { return std::isnan(logit); });
  return any;
}

RequestOutput ChunkSampler::advance(const ScheduledChunk& chunk, size_t index) const {
  auto& sequence = *chunk.sequence;
  const auto& found = logits_.chunks[index];
  RequestOutput output{.id = sequence.id,
                       .prompt_tokens = sequence.prompt_size,
                       .cached_tokens = sequence.num_cached_tokens.value_or(0),
                       .weights_version = weights_version_};
  if (found.count == 0) {
    sequence.num_computed_tokens += chunk.count;
    return output;
  }
  if (sequence.search) {
    sequence.search->add_candidates(sequence, logits_.row(index, 0));
    sequence.num_computed_tokens += chunk.count;
    return output;
  }
  if (found.has_nan) throw ConstraintError(kModelComputesNan);
  if (sequence.generated() == 0) output.prompt_logprobs = std::move(sequence.prompt_logprobs);
  sequence.num_computed_tokens += chunk.count - found.count;  // tokens before the first row that is read
  int64_t accepted = 0;
  for (int64_t i = 0; i < found.count; ++i) {
    auto token = found.sampled >= 0 ? found.sampled : sample_with_logprobs(sequence, logits_.row(index, i), output);
    bool as_drafted = i + 1 < found.count && token == sequence.draft_tokens[static_cast<size_t>(i)];
    sequence.advance(token, output);
    ++accepted;
    if (output.finish != FinishReason::none || !as_drafted) break;
  }
  sequence.num_computed_tokens += accepted;
  if (output.finish != FinishReason::none && routed_) output.routed_experts = routed_->read(sequence);
  return output;
}

}  // namespace hone::engine
