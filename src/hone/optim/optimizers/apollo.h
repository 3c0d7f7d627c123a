// APOLLO: plain gradients, scaled per channel (or per matrix) by Adam's scaling of a low-rank projection. Its moments have the
// projection's size; rank 1 with one scale per matrix is APOLLO-Mini.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/optim/optimizers/adam_moments.h"
#include "hone/optim/optimizers/each_parameter.h"
#include "hone/optim/optimizers/projection.h"

namespace hone::optim {

struct ApolloConfig {
  AdamConfig adam;
  int64_t rank = 16, update_interval = 200;
  double scale = 32;
  bool by_svd = false;       // projections from the gradient's singular vectors instead of random ones
  bool per_channel = true;   // else one scale for a whole matrix
  bool scale_front = false;  // scale before the limit on the update's growth instead of after it
  std::string projection = "std";
  std::vector<std::string> targets = {"all"};
  std::optional<int64_t> alone_at;  // the only parameter here is the n-th of a run whose others have optimizers of their own
};

class Apollo : public Optimizer {
 public:
  Apollo(std::vector<ParameterGroup> groups, const ApolloConfig& config);
  void step(double learning_rate) override;
  void visit_state(const StateVisitor& visit) override;

 private:
  struct State {
    Projection side = Projection::none;
    Tensor projector;     // left: [rows, rank], right: [rank, columns]
    Tensor seed;          // of the next random projector
    Tensor norm;          // of the last update, which the next may exceed by one percent
    AdamMoments moments;  // of the projected gradient
  };
  State initial_state(const std::string& name, const Tensor& parameter, int64_t seed) const;
  void refresh_projector(State& state, const Tensor& gradient) const;
  Tensor scaled_gradient(State& state, const Tensor& gradient, const Tensor& projected, const Tensor& direction) const;

  ApolloConfig config_;
  PerParameterState<State> states_;
  Tensor step_ = at::zeros({}, at::kLong);
};

}  // namespace hone::optim
