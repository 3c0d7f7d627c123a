// Muon: orthogonalized Nesterov momentum for hidden matrices; embeddings, head and vectors go to AdamW.
#pragma once
#include "hone/optim/optimizers/adam.h"

namespace hone::optim {

struct MuonConfig {
  double momentum = 0.95;
  bool nesterov = true;
  int newton_schulz_steps = 5;
  // Scale of the updates, with the square root of the longer side: 0.2 matches the magnitude of AdamW's, 1 is Megatron's.
  double scale = 0.2;
  MatrixShards matrices = {};
  AdamConfig rest;
};

class Muon : public Optimizer {
 public:
  Muon(std::vector<ParameterGroup> groups, const MuonConfig& config);
  void step(double learning_rate) override;
  void visit_state(const StateVisitor& visit) override;

 private:
  bool is_matrix(const std::string& name, const Tensor& parameter) const;
  // Adds the gradient of a matrix, or of a shard of it, to the momentum and returns the direction to orthogonalize.
  Tensor direction(const Tensor& gradient, Tensor& momentum) const;
  Tensor orthogonal_update(const Tensor& whole) const;  // for a learning rate of 1
  static void apply(const ParameterGroup& group, Tensor& parameter, const Tensor& update, double learning_rate);
  void update_pieces(double learning_rate);

  MuonConfig config_;
  std::vector<ParameterGroup> matrices_;
  std::vector<TensorList> momentum_;
  Adam rest_;
};

// A hidden weight matrix: two dimensions, neither embedding nor output head.
bool is_hidden_matrix(const std::string& name, const Tensor& parameter);

// Nearly orthogonal matrix with the singular vectors of `gradient`, by a quintic Newton-Schulz iteration.
Tensor orthogonalize(const Tensor& gradient, int steps);

}  // namespace hone::optim
