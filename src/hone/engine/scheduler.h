// Who computes what in the next step: running answers first, then prompts, in parts if need be, as far as tokens and blocks
// reach.
#pragma once
#include <set>
#include <vector>

#include "hone/engine/sequence.h"

namespace hone::engine {

struct SchedulerLimits {
  int64_t max_sequences = 256, max_step_tokens = 2048, speculative_tokens = 0;
};

// The tokens [sequence.computed, + count) of a sequence; a guess counts as tokens behind its last one.
struct Slice {
  Sequence* sequence;
  int64_t count;
  bool reaches_end() const { return sequence->computed + count >= sequence->size(); }
  // Each of its rows goes on from what the cache holds, as if it came alone; a guess does, too.
  bool continues() const { return count == 1 || sequence->is_decoding(); }
  bool is_repeatable() const { return sequence->request.sampling.repeatable; }
};

struct StepBatch {
  std::vector<Slice> slices;  // those that continue first, then repeatable prompts, then the others
  bool empty() const { return slices.empty(); }
};

struct BlockCopy {
  BlockId from, to;
};

class Scheduler {
 public:
  Scheduler(const SchedulerLimits& limits, BlockManager& blocks) : limits_(limits), blocks_(blocks) {}

  void add(Sequence& sequence) { waiting_.insert(&sequence); }
  StepBatch schedule();
  // `child`, which holds nothing yet, goes on from what is computed of `parent`: full blocks are shared, a last one that is not
  // full is to be copied before the next step.
  void fork(const Sequence& parent, Sequence& child, std::vector<BlockCopy>& copies);
  void remove(Sequence& sequence);  // finished or cancelled: its blocks are free at once
  void preempt_all();               // everything is computed again

  int64_t running() const { return static_cast<int64_t>(running_.size()); }
  int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }
  int64_t preemptions() const { return preemptions_; }

 private:
  struct ByRank {
    bool operator()(const Sequence* a, const Sequence* b) const { return a->rank != b->rank ? a->rank < b->rank : a->id < b->id; }
  };
  void schedule_answers(StepBatch& batch, int64_t& budget);
  void schedule_prompts(StepBatch& batch, int64_t& budget);
  void admit(StepBatch& batch, int64_t& budget);
  bool try_admit(Sequence& sequence);
  int64_t next_part(const Sequence& sequence, int64_t budget) const;
  bool preempt_held();
  void start(Sequence& sequence);
  int64_t active() const;
  bool make_room(Sequence& sequence, int64_t count);
  int64_t missing_blocks(const Sequence& sequence, int64_t count) const;
  void preempt(Sequence& sequence);
  void release(Sequence& sequence);
  void compute(Sequence& sequence, int64_t count, StepBatch& batch, int64_t& budget);

  SchedulerLimits limits_;
  BlockManager& blocks_;
  std::set<Sequence*, ByRank> waiting_;
  std::vector<Sequence*> running_;  // in the order of ranks
  int64_t preemptions_ = 0;
};

}  // namespace hone::engine
