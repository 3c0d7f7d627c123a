// The trainer's interface to several processes: reductions of gradients, counts and metrics.
#pragma once
#include "hone/device/tensor.h"
#include "hone/optim/optimizer.h"

namespace hone::parallel {
class ProcessGroup;
}

namespace hone::train {

class PipelineSchedule;

class ParallelStrategy {
 public:
  virtual ~ParallelStrategy() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void all_reduce(Tensor& values) = 0;  // in place, over all processes
  double sum(double value) {
    auto total = at::tensor(value, at::kDouble);
    all_reduce(total);
    return total.item<double>();
  }

  virtual double seconds_waited() const { return 0; }  // for other processes, so far
  virtual int64_t bytes_sent() const { return 0; }

  // Around each forward and backward pass of an update. Gradient reduction may overlap with the last one.
  virtual void before_micro_batch(bool /*last*/) {}
  virtual void after_micro_batch() {}
  virtual void finish_gradients() {}  // afterwards gradients are the sum over all processes
  // The norm of all gradients of all ranks.
  virtual Tensor clip_grad_norm(optim::Optimizer& optimizer, double max_norm) { return optimizer.clip_grad_norm(max_norm); }
  virtual void after_update() {}  // distributes the updated weights to all ranks

  // Whether this process writes optimizer state: the first of the processes with equal state does.
  virtual bool owns_state() const { return rank() == 0; }
  // Whether such a process writes the state of this name.
  virtual bool owns_state_of(const std::string& /*name*/) const { return true; }
  // Whether its rows count in sums: only those of the first process that computes the same rows do.
  virtual bool counts_rows() const { return true; }
  // While held, every process has the full model in memory and computes independently.
  virtual void keep_gathered(bool /*hold*/) {}
  // While held, a model generates: on the ranks of generation_group() together, or with the full model on each process.
  virtual void keep_for_generation(bool hold) { keep_gathered(hold); }
  // The tensor parallel ranks of this process, which generate the same completions with their shards; null: it generates alone.
  virtual parallel::ProcessGroup* generation_group() { return nullptr; }
  // Logical or over all processes.
  virtual bool any(bool here) { return sum(here ? 1 : 0) > 0; }
  // The process that writes files that are written once.
  virtual bool is_main() const { return rank() == 0; }
  // The processes that compute losses, if this is one: the last stages of a pipeline. Null: it computes none.
  virtual ParallelStrategy* loss_group() { return this; }
  // The schedule of a pipeline stage; null: this process computes full passes.
  virtual PipelineSchedule* pipeline() { return nullptr; }
  // That of a value model, which trains with the policy and has stages of its own; null: there is none.
  virtual PipelineSchedule* value_pipeline() { return nullptr; }
};

// One process: every sum is its own.
class SingleProcess final : public ParallelStrategy {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_reduce(Tensor&) override {}
};

}  // namespace hone::train
