// Optimizers over named parameter groups. State is plain tensors under stable names, so that checkpoints need no pickle.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hone/base/json.h"
#include "hone/device/tensor.h"

namespace hone::optim {

struct ParameterGroup {
  std::vector<std::string> names;  // checkpoint names, parallel to `parameters`
  TensorList parameters;
  double lr_scale = 1.0;  // this group's learning rate over the schedule's (LoRA+)
  double weight_decay = 0.0;
};

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// Matrices of which every process updates a flat piece: ZeRO, FSDP, Megatron's distributed optimizer.
class MatrixPieces {
 public:
  virtual ~MatrixPieces() = default;
  virtual bool contains(const std::string& piece) const = 0;  // by the name of this process's parameter

  using Read = std::function<Tensor(const std::string& piece)>;
  using Compute = std::function<Tensor(const Tensor& whole)>;
  using Write = std::function<void(const std::string& piece, const Tensor& values)>;
  // What `compute` returns for each full matrix of the values that the processes read, a piece for each of them to write. One
  // process computes a matrix. All processes call it.
  virtual void update(const Read& read, const Compute& compute, const Write& write) = 0;
};

// Matrices that are sharded across processes, by the names of their parameters; empty: all are full.
struct MatrixShards {
  std::function<Tensor(const std::string& name, const Tensor& shard)> gather;  // all processes that hold shards call it
  std::function<Tensor(const std::string& name, const Tensor& whole)> shard;   // this process's
  std::shared_ptr<MatrixPieces> pieces;  // null: every process updates its shard of a matrix as one tensor
};

class Optimizer {
 public:
  explicit Optimizer(std::vector<ParameterGroup> groups) : groups_(std::move(groups)) {}
  virtual ~Optimizer() = default;

  // Called before the last backward pass of a step, for optimizers that update during the backward pass.
  virtual void before_last_backward(double /*learning_rate*/) {}
  // Called once per step, when gradients are complete and not yet clipped: adds gradients of penalties on the weights.
  virtual void add_penalty_gradients() {}
  virtual void step(double learning_rate) = 0;
  NamedTensors state();                        // "exp_avg/<parameter name>" …; tensors, not copies
  void load_state(const NamedTensors& state);  // throws UserError(bad_checkpoint) naming what is missing

  void zero_grad();  // sets gradients to none
  // Norm of all gradients (float32, on the parameters' device) before scaling them down to `max_norm`; 0 means no clipping. If
  // parameters are distributed over processes, `across` sums the squared norms.
  using AllReduceNorm = std::function<void(Tensor& squared_norm)>;
  Tensor clip_grad_norm(double max_norm, const AllReduceNorm& across = {});
  // Whether step() applies the clipping factor while reading gradients, so that they are unchanged until then; it then accepts
  // bfloat16 gradients too.
  virtual bool scales_gradients() const { return false; }
  // Requests that step() also writes rounded copies of parameters: (parameter, copy). False if not supported.
  virtual bool write_along(const std::vector<std::pair<Tensor, Tensor>>& /*copies*/) { return false; }
  const std::vector<ParameterGroup>& groups() const { return groups_; }
  // If step() reads gradients only on the device, the caller need not know whether they are finite: the next step() changes
  // nothing if `sum`, a float32 scalar on the device, is not finite. uncount_step() then corrects its count.
  void guard_step(const Tensor& sum) { guard_ = sum; }
  virtual void uncount_step() {}

  using StateVisitor = std::function<void(const std::string& name, Tensor& tensor)>;
  // Visits every state tensor under a name that does not depend on the order of parameters. Saving and loading use it.
  virtual void visit_state(const StateVisitor& visit) = 0;

 protected:
  std::vector<ParameterGroup> groups_;
  Tensor clipping_;  // what step() multiplies gradients by, where it does; undefined: 1
  Tensor guard_;     // of guard_step(); undefined: the step is taken
};

// The parameters of one group that have a gradient: index in the group's lists and the two tensors.
struct ActiveParameters {
  std::vector<size_t> positions;
  TensorList parameters, gradients;
};
ActiveParameters active_parameters(const ParameterGroup& group);

// Zeros like each parameter of the group, detached.
TensorList zeros_like_group(const ParameterGroup& group);
TensorList pick(const TensorList& tensors, const std::vector<size_t>& positions);
void visit_slot(const Optimizer::StateVisitor& visit, const std::string& slot, const ParameterGroup& group, TensorList& tensors);

}  // namespace hone::optim
