#include "hone/parallel/pipeline/pipeline_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace hone::parallel {
namespace {

// Runs all ranks at once, each waiting for what it needs: a forward takes 1, a backward 2. The time of the last one, or -1 where
// they wait for each other.
class Simulation {
 public:
  Simulation(int ranks, int chunks, size_t micro_batches) : stages_(ranks * chunks) {
    for (int rank = 0; rank < ranks; ++rank) steps_.push_back(pipeline_steps(rank, ranks, chunks, micro_batches));
    next_.resize(steps_.size());
    clock_.resize(steps_.size());
    in_flight_.resize(steps_.size());
    most_.resize(steps_.size());
  }

  int64_t run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < steps_.size(); ++rank)
        while (next_[rank] < steps_[rank].size() && take(rank, steps_[rank][next_[rank]])) moved = true, ++next_[rank];
    }
    for (size_t rank = 0; rank < steps_.size(); ++rank)
      if (next_[rank] < steps_[rank].size()) return -1;
    return *std::ranges::max_element(clock_);
  }
  size_t most_in_flight(size_t rank) const { return most_[rank]; }
  const std::vector<PipelineStep>& steps(size_t rank) const { return steps_[rank]; }

 private:
  using Pass = std::tuple<bool, int, size_t>;  // forward or not, stage, micro-batch

  bool take(size_t rank, const PipelineStep& step) {
    const int stage = step.chunk * static_cast<int>(steps_.size()) + static_cast<int>(rank);
    std::vector<Pass> needs;
    if (step.is_forward && stage > 0) needs.push_back({true, stage - 1, step.micro_batch});
    if (!step.is_forward) needs.push_back({true, stage, step.micro_batch});
    if (!step.is_forward && stage + 1 < stages_) needs.push_back({false, stage + 1, step.micro_batch});
    for (const auto& need : needs) {
      const auto found = done_.find(need);
      if (found == done_.end()) return false;
      clock_[rank] = std::max(clock_[rank], found->second);
    }
    clock_[rank] += step.is_forward ? 1 : 2;
    EXPECT_TRUE(done_.insert({{step.is_forward, stage, step.micro_batch}, clock_[rank]}).second);
    in_flight_[rank] += step.is_forward ? 1 : -1;
    most_[rank] = std::max(most_[rank], static_cast<size_t>(in_flight_[rank]));
    return true;
  }

  int stages_;
  std::vector<std::vector<PipelineStep>> steps_;
  std::vector<size_t> next_, most_;
  std::vector<int64_t> clock_, in_flight_;
  std::map<Pass, int64_t> done_;
};

TEST(PipelineSteps, NobodyWaitsForeverAndTheBubbleShrinksWithTheChunks) {
  for (int ranks : {2, 3, 4, 8})
    for (int chunks : {1, 2, 3})
      for (size_t micro_batches : {1, 2, 3, 4, 5, 8, 13, 24, 200}) {
        Simulation all(ranks, chunks, micro_batches);
        const auto time = all.run();
        const auto where = testing::Message()
                           << ranks << " ranks, " << chunks << " chunks, " << micro_batches << " micro-batches";
        ASSERT_GT(time, 0) << where;
        for (size_t rank = 0; rank < static_cast<size_t>(ranks); ++rank)
          EXPECT_EQ(all.steps(rank).size(), 2 * micro_batches * static_cast<size_t>(chunks)) << where;
        if (micro_batches % static_cast<size_t>(ranks) != 0) continue;
        EXPECT_EQ(time, 3 * (static_cast<int64_t>(micro_batches) * chunks + ranks - 1)) << where;
      }
}

TEST(PipelineSteps, KeepsFewMicroBatches) {
  Simulation plain(4, 1, 100), interleaved(4, 2, 100);
  plain.run();
  interleaved.run();
  EXPECT_EQ(plain.most_in_flight(0), 4u);
  EXPECT_EQ(plain.most_in_flight(3), 1u);
  EXPECT_EQ(interleaved.most_in_flight(0), 11u);  // of half a stage each: 2 (4 - 1) + 4 + 1
}

// Messages of one direction between two ranks are taken in the order in which they were sent.
TEST(PipelineSteps, NeighborsAgreeOnTheOrder) {
  constexpr int kRanks = 3, kChunks = 2;
  Simulation all(kRanks, kChunks, 7);
  for (int rank = 0; rank < kRanks; ++rank) {
    const int next = (rank + 1) % kRanks;
    using Message = std::pair<int, size_t>;  // the stage that takes it, the micro-batch
    std::vector<Message> sent, taken, sent_back, taken_back;
    for (const auto& step : all.steps(static_cast<size_t>(rank))) {
      const int stage = step.chunk * kRanks + rank;
      if (stage + 1 < kRanks * kChunks)
        (step.is_forward ? sent : taken_back).push_back({step.is_forward ? stage + 1 : stage, step.micro_batch});
    }
    for (const auto& step : all.steps(static_cast<size_t>(next))) {
      const int stage = step.chunk * kRanks + next;
      if (stage > 0) (step.is_forward ? taken : sent_back).push_back({step.is_forward ? stage : stage - 1, step.micro_batch});
    }
    EXPECT_EQ(sent, taken);
    EXPECT_EQ(sent_back, taken_back);
  }
}

}  // namespace
}  // namespace hone::parallel
