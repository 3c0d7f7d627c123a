// Q-GaLore: GaLore with 8-bit moments and low-bit projectors, which recomputes a subspace less often if it stays similar.
#pragma once
#include "hone/optim/optimizers/blockwise_quantized.h"
#include "hone/optim/optimizers/each_parameter.h"
#include "hone/optim/optimizers/galore.h"

namespace hone::optim {

struct QuantizedGaloreConfig {
  GaloreConfig galore;
  bool quantize_projector = false;         // else float32
  int64_t bits = 4, group = 256;           // of the coarse one: values that share a scale
  double cos_threshold = 0.4;              // mean likeness of the last subspaces from which on a matrix waits longer
  int64_t gamma_proj = 2, queue_size = 5;  // how much longer, and how many subspaces count
};

// Rounds values to 2^bits even steps between each group's minimum and maximum.
struct QuantizedProjector {
  Tensor codes, scales, zeros;
  static QuantizedProjector of(const Tensor& matrix, int64_t bits, int64_t group);
  Tensor values(at::IntArrayRef shape) const;
};

class QuantizedGalore : public Optimizer {
 public:
  QuantizedGalore(std::vector<ParameterGroup> groups, const QuantizedGaloreConfig& config);
  void step(double learning_rate) override;
  void visit_state(const StateVisitor& visit) override;

 private:
  struct State {
    Projection side = Projection::none;
    Tensor projector;  // float32, [rows, rank] or [rank, columns]; of a coarse one only the shape is used
    QuantizedProjector coarse;
    Tensor first_vector;               // of the subspace before
    Tensor cosine_similarities;        // of the last subspaces, oldest first
    Tensor counts;                     // steps between subspaces, subspaces seen
    BlockwiseQuantized first, second;  // moments in the subspace
  };
  State initial_state(const std::string& name, const Tensor& parameter) const;
  void refresh(State& state, const Tensor& gradient) const;
  Tensor projector(const State& state) const;
  Tensor direction(State& state, const Tensor& gradient, int64_t step) const;

  QuantizedGaloreConfig config_;
  PerParameterState<State> states_;
  Tensor step_ = at::zeros({}, at::kLong);
};

}  // namespace hone::optim
