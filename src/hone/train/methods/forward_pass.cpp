#include "hone/train/methods/forward_pass.h"

#include "hone/model/decoder.h"
#include "hone/model/pooling.h"

namespace hone::train {

Tensor ForwardOutputs::last_token_states() const { return model::last_token_states(hidden_th, batch.segments); }

ops::TargetLogps ForwardOutputs::target_logps(double temperature) const {
  if (const auto* pipeline = model.decoder().pipeline; pipeline && !pipeline->is_last()) {
    const auto zeros_t = at::zeros({batch.targets_t.size(0)}, hidden_th.options().dtype(at::kFloat));
    return {zeros_t, zeros_t};
  }
  const auto& head = std::as_const(model).head();
  const auto* region = model.decoder().region;
  return ops::linear_logps(hidden_th, head.weight, head.bias, batch.targets_t,
                           {.target_count = batch.target_count, .adapters = head.adapters, .scale = 1 / temperature},
                           region ? region->vocabulary() : nullptr);
}

// Values are float32 and dropout is off: a value is compared with itself a few updates earlier.
Tensor ForwardOutputs::values(const Tensor& positions_n) const {
  auto& valued = value_model ? *value_model : model;
  const auto& decoder = valued.decoder();
  if (decoder.pipeline && !decoder.pipeline->is_last())
    return at::zeros({positions_n.size(0)}, hidden_th.options().dtype(at::kFloat));
  const auto states_nh = (value_model ? value_hidden_th : hidden_th).index_select(0, positions_n);
  const auto* head = valued.value_head();
  if (!head) return model::classification_logits(valued, states_nh).select(1, 0);
  const auto values_n = at::linear(states_nh.to(at::kFloat), head->weight, head->bias).squeeze(1);
  return decoder.region ? decoder.region->replicated(values_n) : values_n;
}

ForwardOutputs run_forward(model::CausalLM& model, ForwardRequest request) {
  ForwardOutputs outputs{.model = model, .batch = std::move(request.batch), .hidden_th = {}, .value_model = request.value_model};
  outputs.hidden_th =
      model.hidden_states(forward_input(outputs.batch), nullptr, request.router_logits ? &outputs.router_logits : nullptr);
  if (outputs.value_model) outputs.value_hidden_th = outputs.value_model->hidden_states(forward_input(outputs.batch));
  return outputs;
}

model::ForwardInput forward_input(const data::Batch& batch) {
  model::ForwardInput input{.tokens_t = batch.tokens_t, .positions_t = batch.positions_t, .segments = batch.segments};
  input.offsets_s = batch.offsets_s;
  input.images = {batch.images.patches_pr, batch.images.grids, batch.images.rows_n};
  input.audio = {batch.audio.frames_fm, batch.audio.lengths, batch.audio.rows_n};
  return input;
}

}  // namespace hone::train
