#include "hone/optim/optimizers/muon.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "hone/optim/optimizers/each_parameter.h"

namespace hone::optim {
namespace {

template <class Keep>
std::vector<ParameterGroup> filtered(const std::vector<ParameterGroup>& groups, Keep keep) {
  std::vector<ParameterGroup> kept;
  for (const auto& group : groups) {
    ParameterGroup part{{}, {}, group.lr_scale, group.weight_decay};
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      if (!keep(group.names[i], group.parameters[i])) continue;
      part.names.push_back(group.names[i]);
      part.parameters.push_back(group.parameters[i]);
    }
    if (!part.parameters.empty()) kept.push_back(std::move(part));
  }
  return kept;
}

// Tensor cores make bf16 the fast dtype on accelerators; on the host float32 is both faster and more accurate.
at::ScalarType iteration_dtype(const Tensor& gradient) { return gradient.is_cpu() ? at::kFloat : at::kBFloat16; }

}  // namespace

bool is_hidden_matrix(const std::string& name, const Tensor& parameter) {
  return parameter.dim() == 2 && name.find("embed") == std::string::npos && name.find("lm_head") == std::string::npos;
}

Tensor orthogonalize(const Tensor& gradient, int steps) {
  constexpr double kLinear = 3.4445, kCubic = -4.7750, kQuintic = 2.0315;
  const bool tall = gradient.size(0) > gradient.size(1);
  Tensor x = gradient.to(iteration_dtype(gradient));
  if (tall) x = x.t();
  x = x / x.norm().clamp_min(1e-7);
  for (int i = 0; i < steps; ++i) {
    Tensor gram = x.mm(x.t());
    Tensor polynomial = at::addmm(gram, gram, gram, kCubic, kQuintic);
    x = at::addmm(x, polynomial, x, kLinear, 1.0);
  }
  return tall ? x.t() : x;
}

Muon::Muon(std::vector<ParameterGroup> groups, const MuonConfig& config)
    : Optimizer(std::move(groups)),
      config_(config),
      matrices_(filtered(groups_, [&](const auto& name, const auto& parameter) { return is_matrix(name, parameter); })),
      rest_(filtered(groups_, [&](const auto& name, const auto& parameter) { return !is_matrix(name, parameter); }),
            config.rest) {
  for (const auto& group : matrices_) momentum_.push_back(zeros_like_group(group));
}

bool Muon::is_matrix(const std::string& name, const Tensor& parameter) const {
  const auto& pieces = config_.matrices.pieces;
  return pieces ? pieces->contains(name) : is_hidden_matrix(name, parameter);
}

Tensor Muon::direction(const Tensor& gradient, Tensor& momentum) const {
  momentum.mul_(config_.momentum).add_(gradient);
  return config_.nesterov ? gradient.add(momentum, config_.momentum) : momentum;
}

Tensor Muon::orthogonal_update(const Tensor& whole) const {
  const double longer = static_cast<double>(std::max(whole.size(0), whole.size(1)));
  return orthogonalize(whole, config_.newton_schulz_steps).to(at::kFloat).mul_(config_.scale * std::sqrt(longer));
}

void Muon::apply(const ParameterGroup& group, Tensor& parameter, const Tensor& update, double learning_rate) {
  const double rate = learning_rate * group.lr_scale;
  parameter.mul_(1 - rate * group.weight_decay);
  parameter.add_(update, -rate);
}

void Muon::update_pieces(double learning_rate) {
  at::NoGradGuard no_grad;
  struct Piece {
    const ParameterGroup& group;
    Tensor parameter, &momentum;
  };
  std::unordered_map<std::string, Piece> pieces;
  for (size_t g = 0; g < matrices_.size(); ++g)
    for (size_t i = 0; i < matrices_[g].names.size(); ++i)
      pieces.insert({matrices_[g].names[i], {matrices_[g], matrices_[g].parameters[i], momentum_[g][i]}});
  config_.matrices.pieces->update(
      [&](const std::string& name) {
        auto& piece = pieces.at(name);
        const Tensor& gradient = piece.parameter.grad();
        return direction(gradient.defined() ? gradient : at::zeros_like(piece.parameter), piece.momentum);
      },
      [&](const Tensor& whole) { return orthogonal_update(whole); },
      [&](const std::string& name, const Tensor& values) {
        auto& piece = pieces.at(name);
        apply(piece.group, piece.parameter, values.to(piece.parameter.device()),
              learning_rate);  // an offloaded one is on the host
      });
}

void Muon::step(double learning_rate) {
  const auto& [gather, shard, pieces] = config_.matrices;
  if (pieces) {
    update_pieces(learning_rate);
  } else {
    update_each(matrices_, momentum_,
                [&](const ParameterGroup& group, const std::string& name, Tensor& parameter, Tensor& momentum) {
                  const Tensor here = direction(parameter.grad(), momentum);
                  const Tensor update = orthogonal_update(gather ? gather(name, here) : here);
                  apply(group, parameter, shard ? shard(name, update) : update, learning_rate);
                });
  }
  rest_.step(learning_rate);
}

void Muon::visit_state(const StateVisitor& visit) {
  for (size_t g = 0; g < matrices_.size(); ++g) visit_slot(visit, "momentum_buffer", matrices_[g], momentum_[g]);
  rest_.visit_state(visit);
}

}  // namespace hone::optim
