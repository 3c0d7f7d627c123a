// The training pass: its inputs from a loss, and its outputs. Losses never run a trained model themselves.
#pragma once
#include <memory>
#include <optional>

#include "hone/data/batches/batch.h"
#include "hone/model/causal_lm.h"
#include "hone/model/forward_input.h"
#include "hone/ops/loss/linear_logps.h"

namespace hone::train {

struct ForwardOutputs;

struct ForwardRequest {
  data::Batch batch;                       // the trainer's batch, or some of its sequences
  bool router_logits = false;              // of layers with experts
  model::CausalLM* value_model = nullptr;  // a model that trains with the policy on the same sequences; null: none does
  Tensor rows_r = {};  // positions whose outputs are read; undefined: all. Not for sequences that several ranks split
  std::shared_ptr<std::optional<ForwardOutputs>> recorded = {};  // of this very pass, if it ran before; taken once
};

// Hidden states instead of logits, which would not fit: losses apply the model's heads a few rows at a time.
struct ForwardOutputs {
  model::CausalLM& model;  // that computed them, for its heads
  data::Batch batch;       // that was read
  Tensor hidden_th;        // after the final norm, differentiable; zero where the request reads none
  TensorList router_logits = {};
  model::CausalLM* value_model = nullptr;
  Tensor value_hidden_th = {};  // of the value model; undefined without one
  ops::TargetLogps logps = {};  // of a recorded pass whose request had them
  double logps_temperature = 1;

  Tensor last_token_states() const;  // of each sequence, [S, hidden]
  // log p(target) of every position at a temperature, zero without a target, and before the last pipeline stage.
  ops::TargetLogps target_logps(double temperature = 1) const;
  void record_logps(double temperature);  // from then on target_logps returns them, for this temperature alone
  // float32 [N], of a value model or a value head; zero before the last pipeline stage.
  Tensor values(const Tensor& positions_n) const;
};

ForwardOutputs run_forward(model::CausalLM& model, ForwardRequest request);

// The positions that a loss reads: those with a target and, `with_ends`, the last of each sequence, which has none.
// Undefined where most positions are read.
Tensor rows_read(const data::Batch& batch, bool with_ends = false);

// The model input of a batch, for losses, references and evaluation.
model::ForwardInput forward_input(const data::Batch& batch);

}  // namespace hone::train
