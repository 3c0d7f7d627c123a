#include "hone/engine/beam_search.h"

#include <algorithm>
#include <cmath>

namespace hone::engine {

BeamSearch::BeamSearch(std::unique_ptr<Sequence> prompt) : id_(prompt->id) {
  prompt->search = this;
  auto& beam = beams_.emplace_back();
  beam.sequence = std::move(prompt);
  beam.output = {.id = id_, .prompt_tokens = beam.sequence->prompt_size};
  width_ = static_cast<size_t>(params().num_beams);
  kept_ = std::max<size_t>(2, 1 + params().eos_token_ids.size()) * width_;
}

void BeamSearch::add_candidates(Sequence& sequence, std::span<float> logits) {
  auto beam = std::ranges::find_if(beams_, [&](const Beam& each) { return each.sequence.get() == &sequence; });
  const auto& wanted = params().logprobs;
  std::vector<float> raw;
  if (wanted) raw.assign(logits.begin(), logits.end());
  try {
    beam->continuations = sequence.sampler.continuations(logits, kept_, static_cast<uint64_t>(beam - beams_.begin()));
  } catch (const ConstraintError& error) {
    beam->continuations.clear();  // this beam ends here
    beam->has_nan = std::ranges::any_of(logits, [](float logit) { return std::isnan(logit); });
    beam->error = beam->has_nan ? kModelComputesNan : error.what();
  }
  beam->logprobs.clear();
  if (wanted)
    for (const auto& next : beam->continuations) beam->logprobs.push_back(position_logprobs(raw, next.token, *wanted));
  if (sequence.generated() == 0) {
    beam->output.prompt_logprobs = std::move(sequence.prompt_logprobs);
    beam->output.cached_tokens = sequence.num_cached_tokens.value_or(0);
  }
  sequence.waits_for_beams = true;
}

bool BeamSearch::ready() const {
  return std::ranges::all_of(beams_, [](const Beam& beam) { return beam.sequence->waits_for_beams; });
}

float BeamSearch::by_length(float score, int64_t length) const {
  return score / static_cast<float>(std::pow(static_cast<double>(length), params().length_penalty));
}

std::vector<BeamSearch::RankedCandidate> BeamSearch::best_candidates() const {
  std::vector<RankedCandidate> candidates;
  for (size_t i = 0; i < beams_.size(); ++i)
    for (size_t j = 0; j < beams_[i].continuations.size(); ++j) {
      const auto& next = beams_[i].continuations[j];
      candidates.push_back({i, j, beams_[i].score + next.logprob, beams_[i].score + next.order});
    }
  std::ranges::stable_sort(candidates, std::greater(), &RankedCandidate::order);
  candidates.resize(std::min(candidates.size(), kept_));
  return candidates;
}

BeamSearch::Branch BeamSearch::grow(const RankedCandidate& candidate) const {
  const auto& beam = beams_[candidate.beam];
  Branch branch{candidate.beam, std::make_unique<Sequence>(*beam.sequence), beam.output, candidate.score};
  if (!beam.logprobs.empty()) branch.output.logprobs.push_back(beam.logprobs[candidate.continuation]);
  branch.sequence->advance(beam.continuations[candidate.continuation].token, branch.output);
  return branch;
}

void BeamSearch::keep_finished(RequestOutput output, float score) {
  auto position = std::ranges::upper_bound(finished_, score, std::greater(), &Finished::score);
  finished_.insert(position, {std::move(output), score});
  if (finished_.size() > width_) finished_.pop_back();
}

bool BeamSearch::advance(Scheduler& scheduler, RequestId& next_id, ForkCopies& copies) {
  ++length_;
  std::vector<Branch> survivors;
  auto candidates = best_candidates();
  for (const auto& beam : beams_) {
    if (!beam.error.empty()) error_ = beam.error;
    has_nan_ |= beam.has_nan;
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    Branch branch;
    try {
      branch = grow(candidates[i]);
    } catch (const ConstraintError& error) {
      error_ = error.what();
      continue;
    }
    if (branch.output.finish == FinishReason::none)
      survivors.push_back(std::move(branch));
    else if (i < width_)
      keep_finished(std::move(branch.output), by_length(branch.score, length_));  // the rest were only candidates
  }
  std::ranges::stable_sort(survivors, std::greater(), &Branch::score);
  if (survivors.size() > width_) survivors.erase(survivors.begin() + static_cast<ptrdiff_t>(width_), survivors.end());
  if (is_over(survivors)) return false;
  fork_beams(std::move(survivors), scheduler, next_id, copies);
  return true;
}

bool BeamSearch::is_over(const std::vector<Branch>& survivors) const {
  if (survivors.empty()) return true;
  if (finished_.size() < width_) return false;
  if (params().early_stopping == EarlyStopping::yes) return true;
  bool at_any_length = params().early_stopping == EarlyStopping::never && params().length_penalty > 0;
  return by_length(survivors[0].score, at_any_length ? params().max_tokens : length_) <= finished_.back().score;
}

// A parent's first child takes its slot and its blocks; the others fork from it. Beams without a child release theirs first.
void BeamSearch::fork_beams(std::vector<Branch> survivors, Scheduler& scheduler, RequestId& next_id, ForkCopies& copies) {
  std::vector<const Sequence*> parents;
  for (const auto& beam : beams_) parents.push_back(beam.sequence.get());
  for (size_t i = 0; i < beams_.size(); ++i)
    if (std::ranges::find(survivors, i, &Branch::parent) == survivors.end()) scheduler.remove(*beams_[i].sequence);
  std::vector<Beam> next;
  for (auto& branch : survivors) {
    auto sequence = std::move(beams_[branch.parent].sequence);
    if (sequence) {
      sequence->take_over(std::move(*branch.sequence));
    } else {
      sequence = std::move(branch.sequence);
      sequence->id = next_id++;
      sequence->running = false;
      sequence->blocks.clear();
      sequence->state_slot = -1;
      sequence->num_computed_tokens = sequence->published = 0;
      scheduler.fork(*parents[branch.parent], *sequence, copies);
    }
    sequence->waits_for_beams = false;
    next.push_back({.sequence = std::move(sequence), .output = std::move(branch.output), .score = branch.score});
  }
  beams_ = std::move(next);
}

std::vector<RequestOutput> BeamSearch::completions() {
  std::vector<RequestOutput> outputs;
  for (size_t i = 0; i < static_cast<size_t>(params().num_return_sequences); ++i) {
    auto output = i < finished_.size()
                      ? std::move(finished_[i].output)
                      : RequestOutput{.id = id_,
                                      .finish = finished_.empty() && !error_.empty() ? FinishReason::error : FinishReason::stop,
                                      .error = finished_.empty() ? error_ : "",
                                      .model_broken = finished_.empty() && has_nan_,
                                      .prompt_tokens = beams_[0].output.prompt_tokens};
    output.index = i;
    outputs.push_back(std::move(output));
  }
  return outputs;
}

std::vector<Sequence*> BeamSearch::sequences() const {
  std::vector<Sequence*> all;
  for (const auto& beam : beams_) all.push_back(beam.sequence.get());
  return all;
}

}  // namespace hone::engine
