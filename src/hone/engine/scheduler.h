// Continuous batching: decodes first, then prefill chunks, within the token budget and the free KV blocks.
#pragma once
#include <set>
#include <vector>

#include "hone/engine/sequence.h"

namespace hone::engine {

struct SchedulerLimits {
  int64_t max_sequences = 256, max_step_tokens = 2048, speculative_tokens = 0;
  bool keep_images_in_one_chunk = false;  // the rows of an image attend to each other
  int64_t state_slots = 0;                // of recurrent states, one per running sequence; 0: the model has none
};

// The tokens [sequence.computed, + count) of a sequence; draft tokens count after its last one.
struct ScheduledChunk {
  Sequence* sequence;
  int64_t count;
  bool samples_token() const { return sequence->num_computed_tokens + count >= sequence->size(); }
  // Each of its rows resumes from the KV cache like a decode; draft tokens do, too.
  bool is_decode() const { return count == 1 || sequence->is_decoding(); }
  // A short prefill after a cached prefix, as with shared prompts; rows of images attend to each other.
  bool is_short_continuation() const {
    constexpr int64_t kFew = 32;
    return sequence->num_computed_tokens > 0 && count <= kFew && !sequence->request.images && !is_batch_invariant();
  }
  bool is_batch_invariant() const { return sequence->request.sampling.batch_invariant; }
};

struct StepBatch {
  std::vector<ScheduledChunk> chunks;  // decodes first, then batch-invariant prompts, short continuations, and the others
  bool empty() const { return chunks.empty(); }
};

struct BlockCopy {
  BlockId from, to;
};
struct StateCopy {
  int64_t from, to;
};
// Block copies that forks need before the next step.
struct ForkCopies {
  std::vector<BlockCopy> blocks;
  std::vector<StateCopy> states;
};

class Scheduler {
 public:
  Scheduler(const SchedulerLimits& limits, BlockManager& blocks);

  void add(Sequence& sequence) { waiting_.insert(&sequence); }
  StepBatch schedule();
  // Forks `child`, which has no blocks yet, from `parent`: full blocks are shared, and a partial last one and recurrent states
  // must be copied before the next step.
  void fork(const Sequence& parent, Sequence& child, ForkCopies& copies);
  // Reserves blocks for `count` more tokens, for a step without other sequences; false if this would need a preemption.
  bool reserve(Sequence& sequence, int64_t count);
  bool may_admit() const { return waiting() > 0 && active() < limits_.max_sequences; }
  int64_t free_state_slots() const { return static_cast<int64_t>(free_slots_.size()); }
  void remove(Sequence& sequence);  // finished or cancelled: frees its blocks
  void preempt_all();               // everything is recomputed

  int64_t running() const { return static_cast<int64_t>(running_.size()); }
  int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }
  int64_t preemptions() const { return preemptions_; }

 private:
  struct ByQueuePriority {
    bool operator()(const Sequence* a, const Sequence* b) const {
      return a->queue_priority != b->queue_priority ? a->queue_priority < b->queue_priority : a->id < b->id;
    }
  };
  void schedule_decodes(StepBatch& batch, int64_t& budget);
  void schedule_prefills(StepBatch& batch, int64_t& budget);
  void admit(StepBatch& batch, int64_t& budget);
  bool try_admit(Sequence& sequence);
  bool has_states() const { return limits_.state_slots > 0; }
  bool can_fork(const Sequence& parent) const;
  int64_t next_prefill_chunk(const Sequence& sequence, int64_t budget) const;
  int64_t without_split_image(const Sequence& sequence, int64_t count) const;
  bool preempt_waiting_beam();
  void start(Sequence& sequence);
  int64_t active() const;
  bool allocate_blocks(Sequence& sequence, int64_t count);
  int64_t missing_blocks(const Sequence& sequence, int64_t count) const;
  void preempt(Sequence& sequence);
  void release(Sequence& sequence);
  void compute(Sequence& sequence, int64_t count, StepBatch& batch, int64_t& budget);

  SchedulerLimits limits_;
  BlockManager& blocks_;
  std::set<Sequence*, ByQueuePriority> waiting_;
  std::vector<Sequence*> running_;   // by queue priority
  std::vector<int64_t> free_slots_;  // of recurrent states; the last is taken first
  int64_t preemptions_ = 0;
};

}  // namespace hone::engine
