// AdaLoRA's rank allocation around any optimizer: the least important singular values are set to zero until a budget is met, and
// a penalty keeps the singular vectors orthogonal.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hone/optim/optimizer.h"

namespace hone::optim {

struct RankSchedule {
  int64_t target_rank = 8;        // on average over the layers, in the end
  int64_t tinit = 0, tfinal = 0;  // steps without a change of ranks
  int64_t interval = 1;           // steps between changes
  int64_t steps = 0;              // of the run
  double sensitivity_decay = 0.85, uncertainty_decay = 0.85;
  double orthogonality = 0.5;  // weight of the penalty

  int64_t budget(int64_t step, int64_t first, int64_t last) const;  // ranks of all layers together
  bool changes_at(int64_t step) const;
};

class RankAllocator : public Optimizer {
 public:
  // Concatenates the values of all processes that hold other layers (pipeline stages), which all of them call; empty: this
  // process holds every layer.
  using Gather = std::function<Tensor(const Tensor& own)>;
  // The parameters …lora_A, …lora_B and …lora_E of a layer belong together.
  RankAllocator(std::unique_ptr<Optimizer> inner, const RankSchedule& schedule, Gather gather = {});

  void add_penalty_gradients() override;
  void step(double learning_rate) override;
  void visit_state(const StateVisitor& visit) override;

 private:
  // The smoothed sensitivity of the loss to a weight, and its uncertainty.
  struct Importance {
    std::string name;
    Tensor parameter, sensitivity, uncertainty;
    void observe(const RankSchedule& schedule);
    Tensor score() const { return sensitivity * uncertainty; }
  };
  struct Layer {
    Importance a, b, e;     // [rank, in], [out, rank], [rank, 1]
    Tensor kept;            // [rank, 1], as numbers
    Tensor scores() const;  // [rank]
  };
  void allocate(int64_t budget);

  std::unique_ptr<Optimizer> inner_;
  RankSchedule schedule_;
  Gather gather_;
  std::vector<Layer> layers_;
  int64_t all_layers_ = 0, first_ranks_ = 0;  // of all processes
  Tensor step_ = at::zeros({}, at::kLong);
};

}  // namespace hone::optim
