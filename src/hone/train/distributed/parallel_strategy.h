// How the trainer sees several processes: reductions of gradients, counts and metrics.
#pragma once
#include "hone/device/tensor.h"
#include "hone/optim/optimizer.h"

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

  // Around each forward and backward pass of an update. Gradients may travel during the last one.
  virtual void before_micro_batch(bool /*last*/) {}
  virtual void after_micro_batch() {}
  virtual void finish_gradients() {}  // afterwards what the optimizer reads is the sum over all processes
  // The norm of all gradients, wherever they are.
  virtual Tensor clip_grad_norm(optim::Optimizer& optimizer, double max_norm) { return optimizer.clip_grad_norm(max_norm); }
  virtual void after_update() {}  // what the optimizer changed reaches everyone

  // Whether this process writes optimizer state: of what all have alike the first one does.
  virtual bool owns_state() const { return rank() == 0; }
  // Of such a process, whether it writes the state of this name.
  virtual bool owns_state_of(const std::string& /*name*/) const { return true; }
  // Whether its rows count in sums: of processes that compute the same rows together the first one's do.
  virtual bool counts_rows() const { return true; }
  // Until told otherwise every process has the full model in memory: for generation, whose length processes do not agree on.
  virtual void keep_gathered(bool /*hold*/) {}
  // Whether any process says so; the same everywhere.
  virtual bool any(bool said) { return sum(said ? 1 : 0) > 0; }
  // Of all processes, the one that writes what is written once.
  virtual bool is_main() const { return rank() == 0; }
  // Those that compute losses, this one among them: of a pipeline the last stages do. Null: it computes none.
  virtual ParallelStrategy* loss_group() { return this; }
  // How passes go where this process has one stage of the model; null: it computes whole passes.
  virtual PipelineSchedule* pipeline() { return nullptr; }
};

// One process: every sum is its own.
class SingleProcess final : public ParallelStrategy {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_reduce(Tensor&) override {}
};

}  // namespace hone::train
