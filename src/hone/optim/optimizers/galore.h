// GaLore: AdamW whose moments are in a low-rank subspace of each matrix's gradient, recomputed every few steps by SVD.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/optim/optimizers/adam_moments.h"
#include "hone/optim/optimizers/each_parameter.h"
#include "hone/optim/optimizers/projection.h"

namespace hone::optim {

struct GaloreConfig {
  AdamConfig adam;
  int64_t rank = 128, update_interval = 200;
  double scale = 0.25;
  std::string projection = "std";              // std, reverse_std, right, left, full
  std::vector<std::string> targets = {"all"};  // "all": every hidden matrix; else parts of parameter names
  std::optional<int64_t> alone_at;  // the only parameter here is the n-th of a run whose others have optimizers of their own
};

class Galore : public Optimizer {
 public:
  Galore(std::vector<ParameterGroup> groups, const GaloreConfig& config);
  void step(double learning_rate) override;
  void visit_state(const StateVisitor& visit) override;

 private:
  struct State {
    Projection side = Projection::none;
    Tensor left, right;   // [rows, rank], [rank, columns]; undefined when not projected on that side
    AdamMoments moments;  // in the subspace
  };
  State initial_state(const std::string& name, const Tensor& parameter) const;
  void refresh_projector(State& state, const Tensor& gradient) const;

  GaloreConfig config_;
  PerParameterState<State> states_;
  Tensor step_ = at::zeros({}, at::kLong);
};

}  // namespace hone::optim
