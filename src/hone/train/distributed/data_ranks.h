// Data parallel view of the processes: one rank for all processes that compute the same rows.
#pragma once
#include "hone/train/distributed/parallel_strategy.h"

namespace hone::train {

class DataRanks final : public ParallelStrategy {
 public:
  // `processes` are all processes; one per data rank `counts`.
  DataRanks(ParallelStrategy& processes, int rank, int size, bool counts)
      : processes_(processes), rank_(rank), size_(size), counts_(counts) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_reduce(Tensor& values) override {
    if (!counts_) values.zero_();
    processes_.all_reduce(values);
  }
  bool any(bool here) override { return processes_.any(here); }
  bool is_main() const override { return processes_.is_main(); }
  void keep_gathered(bool hold) override { processes_.keep_gathered(hold); }
  void keep_for_generation(bool hold) override { processes_.keep_for_generation(hold); }
  parallel::ProcessGroup* generation_group() override { return processes_.generation_group(); }
  PipelineSchedule* pipeline() override { return processes_.pipeline(); }

 private:
  ParallelStrategy& processes_;
  int rank_, size_;
  bool counts_;
};

}  // namespace hone::train
