#include "hone/engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "hone/engine/prompt_images.h"
#include "hone/engine/prompt_lookup.h"

namespace hone::engine {

Scheduler::Scheduler(const SchedulerLimits& limits, BlockManager& blocks) : limits_(limits), blocks_(blocks) {
  for (int64_t slot = limits.state_slots; slot-- > 0;) free_slots_.push_back(slot);
}

StepBatch Scheduler::schedule() {
  StepBatch batch;
  int64_t budget = limits_.max_step_tokens;
  for (auto* sequence : running_) sequence->scheduled = false;
  blocks_.clear_pending();
  schedule_decodes(batch, budget);
  schedule_prefills(batch, budget);
  admit(batch, budget);
  std::ranges::stable_sort(batch.chunks, {}, [](const ScheduledChunk& chunk) {
    return chunk.is_decode() ? 0 : chunk.is_batch_invariant() ? 1 : chunk.is_short_continuation() ? 2 : 3;
  });
  return batch;
}

void Scheduler::schedule_decodes(StepBatch& batch, int64_t& budget) {
  for (auto* sequence : std::vector(running_)) {  // a copy: preemption removes sequences
    if (budget <= 0) return;
    if (!sequence->running || sequence->waits_for_beams || !sequence->is_decoding()) continue;
    int64_t room = sequence->search ? 0
                                    : std::min({limits_.speculative_tokens,
                                                sequence->request.sampling.max_tokens - sequence->generated() - 1, budget - 1});
    sequence->draft_tokens = propose_draft_tokens(sequence->tokens, room);
    auto count = 1 + static_cast<int64_t>(sequence->draft_tokens.size());
    if (allocate_blocks(*sequence, count)) compute(*sequence, count, batch, budget);
  }
}

void Scheduler::schedule_prefills(StepBatch& batch, int64_t& budget) {
  for (auto* sequence : std::vector(running_)) {
    if (budget <= 0) return;
    if (!sequence->running || sequence->waits_for_beams || sequence->scheduled) continue;
    int64_t count = next_prefill_chunk(*sequence, budget);
    if (count == 0)
      budget = 0;  // no request overtakes it: blocks will become free
    else if (allocate_blocks(*sequence, count))
      compute(*sequence, count, batch, budget);
  }
}

void Scheduler::admit(StepBatch& batch, int64_t& budget) {
  for (auto it = waiting_.begin(); it != waiting_.end() && budget > 0 && active() < limits_.max_sequences;) {
    auto& sequence = **it;
    bool shares_prefix = !sequence.request.sampling.batch_invariant;
    if (sequence.waits_for_beams || (shares_prefix && blocks_.is_pending(sequence.tokens, sequence.cache_key))) {
      ++it;  // another request computes the same prefix in this step
      continue;
    }
    if (next_prefill_chunk(sequence, budget) == 0) return;
    if (!try_admit(sequence)) {
      if (preempt_waiting_beam()) continue;
      return;  // no overtaking: a large request is not starved by small ones
    }
    it = waiting_.erase(it);
    start(sequence);
    compute(sequence, next_prefill_chunk(sequence, budget), batch, budget);
  }
}

// The next chunk of a prompt. Batch-invariant prompts are chunked at fixed positions, regardless of the remaining budget; 0: it
// waits for more.
int64_t Scheduler::next_prefill_chunk(const Sequence& sequence, int64_t budget) const {
  if (!sequence.request.sampling.batch_invariant) return without_split_image(sequence, std::min(sequence.remaining(), budget));
  int64_t chunk = std::max<int64_t>(1, limits_.max_step_tokens / 2);
  int64_t count = without_split_image(sequence, std::min(sequence.remaining(), chunk - sequence.num_computed_tokens % chunk));
  return count <= budget || budget == limits_.max_step_tokens ? count : 0;
}

// A chunk that would end inside an image ends before it, or after it if it starts there: a step may then exceed the budget.
int64_t Scheduler::without_split_image(const Sequence& sequence, int64_t count) const {
  if (!limits_.keep_images_in_one_chunk || !sequence.request.images) return count;
  const int64_t now = sequence.num_computed_tokens, end = now + count;
  for (const auto& image : sequence.request.images->blocks)
    if (image.begin < end && end < image.end) return (image.begin > now ? image.begin : image.end) - now;
  return count;
}

// Takes blocks from the prefix cache; fails if the rest of the sequence does not fit, or no slot is free.
bool Scheduler::try_admit(Sequence& sequence) {
  if (has_states() && free_slots_.empty()) return false;
  const auto& sampling = sequence.request.sampling;
  std::span<const text::TokenId> shared(sequence.tokens);
  if (sequence.wants_prompt_logprobs())  // its first row is that of the token before, which is computed here
    shared = shared.first(static_cast<size_t>(std::clamp<int64_t>(sampling.prompt_logprobs_start, 1, sequence.size())));
  if (!sampling.batch_invariant) sequence.blocks = blocks_.find_prefix(shared, sequence.cache_key);
  auto found = static_cast<int64_t>(sequence.blocks.size());
  if (blocks_.free_blocks() < blocks_.blocks_for(sequence.size()) - found) {
    blocks_.release(sequence.blocks);
    return false;
  }
  sequence.num_computed_tokens = found * blocks_.block_size();
  sequence.published = found;
  if (!sequence.num_cached_tokens) sequence.num_cached_tokens = sequence.num_computed_tokens;
  return true;
}

void Scheduler::start(Sequence& sequence) {
  sequence.running = true;
  if (has_states()) {
    sequence.state_slot = free_slots_.back();
    free_slots_.pop_back();
  }
  running_.insert(std::upper_bound(running_.begin(), running_.end(), &sequence, ByQueuePriority()), &sequence);
}

int64_t Scheduler::active() const {
  return std::ranges::count_if(running_, [](const Sequence* sequence) { return !sequence->waits_for_beams; });
}

// Beams that finished their step yield to those they wait for;
// otherwise two searches could wait for each other's blocks forever.
bool Scheduler::preempt_waiting_beam() {
  auto last =
      std::find_if(running_.rbegin(), running_.rend(), [](const Sequence* sequence) { return sequence->waits_for_beams; });
  if (last == running_.rend()) return false;
  preempt(**last);
  return true;
}

// Recurrent states are those after all computed tokens: a child that has not all of them starts again.
bool Scheduler::can_fork(const Sequence& parent) const {
  if (!parent.running || running() >= limits_.max_sequences) return false;
  const bool has_partial_block = parent.num_computed_tokens % blocks_.block_size() != 0;
  return !has_states() || (!free_slots_.empty() && (!has_partial_block || blocks_.free_blocks() > 0));
}

void Scheduler::fork(const Sequence& parent, Sequence& child, ForkCopies& copies) {
  if (!can_fork(parent)) return add(child);
  int64_t full = parent.num_computed_tokens / blocks_.block_size();
  child.blocks.assign(parent.blocks.begin(), parent.blocks.begin() + full);
  blocks_.share(child.blocks);
  child.num_computed_tokens = full * blocks_.block_size();
  child.published = std::min(parent.published, full);
  if (child.num_computed_tokens < parent.num_computed_tokens && blocks_.free_blocks() > 0) {
    child.blocks.push_back(blocks_.allocate());
    child.num_computed_tokens = parent.num_computed_tokens;
    copies.blocks.push_back({parent.blocks[static_cast<size_t>(full)], child.blocks.back()});
  }
  start(child);
  if (has_states()) copies.states.push_back({parent.state_slot, child.state_slot});
}

// If blocks run out, the lowest-priority sequence that is not in this step yet is preempted; that may be the requesting one.
bool Scheduler::allocate_blocks(Sequence& sequence, int64_t count) {
  while (blocks_.free_blocks() < missing_blocks(sequence, count)) {
    auto victim = std::find_if(running_.rbegin(), running_.rend(), [](const Sequence* other) { return !other->scheduled; });
    auto* chosen = *victim;  // the requesting sequence itself is not scheduled, so there is one
    preempt(*chosen);
    if (chosen == &sequence) return false;
  }
  return true;
}

int64_t Scheduler::missing_blocks(const Sequence& sequence, int64_t count) const {
  return blocks_.blocks_for(sequence.num_computed_tokens + count) - static_cast<int64_t>(sequence.blocks.size());
}

bool Scheduler::reserve(Sequence& sequence, int64_t count) {
  if (blocks_.free_blocks() < missing_blocks(sequence, count)) return false;
  while (missing_blocks(sequence, count) > 0) sequence.blocks.push_back(blocks_.allocate());
  return true;
}

void Scheduler::compute(Sequence& sequence, int64_t count, StepBatch& batch, int64_t& budget) {
  while (missing_blocks(sequence, count) > 0) sequence.blocks.push_back(blocks_.allocate());
  sequence.scheduled = true;
  if (!sequence.is_decoding()) blocks_.mark_pending(sequence.tokens, sequence.cache_key);
  batch.chunks.push_back({&sequence, count});
  budget -= count;
}

// Its tokens stay; its keys, values and recurrent states are recomputed, except those still in the prefix cache.
void Scheduler::preempt(Sequence& sequence) {
  release(sequence);
  waiting_.insert(&sequence);
  ++preemptions_;
}

void Scheduler::release(Sequence& sequence) {
  blocks_.release(sequence.blocks);
  sequence.num_computed_tokens = sequence.published = 0;
  sequence.draft_tokens.clear();
  sequence.prompt_logprobs.clear();
  sequence.running = false;
  if (sequence.state_slot >= 0) free_slots_.push_back(std::exchange(sequence.state_slot, -1));
  std::erase(running_, &sequence);
}

void Scheduler::remove(Sequence& sequence) {
  waiting_.erase(&sequence);
  release(sequence);
}

void Scheduler::preempt_all() {
  while (!running_.empty()) preempt(*running_.back());
}

}  // namespace hone::engine
