#include "hone/train/methods/forward_pass.h"

#include "hone/base/error.h"
#include "hone/model/decoder.h"
#include "hone/model/pooling.h"

namespace hone::train {
namespace {

// The rows at their positions, zero elsewhere.
Tensor scattered(const Tensor& hidden_rh, const model::ForwardInput& input) {
  if (!input.output_rows_r.defined()) return hidden_rh;
  return at::zeros({input.size(), hidden_rh.size(1)}, hidden_rh.options()).index_copy(0, input.output_rows_r, hidden_rh);
}

}  // namespace

Tensor ForwardOutputs::last_token_states() const { return model::last_token_states(hidden_th, batch.segments); }

ops::TargetLogps ForwardOutputs::target_logps(double temperature) const {
  if (logps.logps_t.defined()) {
    HONE_CHECK(temperature == logps_temperature, "log-probabilities were recorded at a temperature of {} and are read at {}",
               logps_temperature, temperature);
    return logps;
  }
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

void ForwardOutputs::record_logps(double temperature) {
  logps = target_logps(temperature);
  logps_temperature = temperature;
}

// Values are float32 and dropout is off: a value is compared with itself a few updates earlier.
Tensor ForwardOutputs::values(const Tensor& positions_n) const {
  auto& valued = value_model ? *value_model : model;
  const auto& decoder = valued.decoder();
  if (decoder.pipeline && !decoder.pipeline->is_last())
    return at::zeros({positions_n.size(0)}, hidden_th.options().dtype(at::kFloat));
  const auto states_nh = (value_model ? value_hidden_th : hidden_th).index_select(0, positions_n);
  const auto& head = decoder.value_head;
  if (!head) return model::classification_logits(valued, states_nh).select(1, 0);
  const auto values_n = at::linear(states_nh.to(at::kFloat), head->weight, head->bias).squeeze(1);
  return decoder.region ? decoder.region->replicated(values_n) : values_n;
}

ForwardOutputs run_forward(model::CausalLM& model, ForwardRequest request) {
  if (request.recorded && *request.recorded) {
    auto outputs = std::move(**request.recorded);
    request.recorded->reset();
    outputs.batch = std::move(request.batch);
    return outputs;
  }
  ForwardOutputs outputs{.model = model, .batch = std::move(request.batch), .hidden_th = {}, .value_model = request.value_model};
  auto input = forward_input(outputs.batch);
  if (!model.decoder().pipeline) input.output_rows_r = request.rows_r;
  outputs.hidden_th =
      scattered(model.hidden_states(input, nullptr, request.router_logits ? &outputs.router_logits : nullptr), input);
  if (outputs.value_model) outputs.value_hidden_th = scattered(outputs.value_model->hidden_states(input), input);
  return outputs;
}

Tensor rows_read(const data::Batch& batch, bool with_ends) {
  const int64_t ends = with_ends ? batch.segments.count() : 0, count = batch.target_count + ends, all = batch.targets_t.size(0);
  if (count == 0 || count * 10 > all * 9) return {};
  if (!with_ends) return ops::labelled_positions(batch.targets_t, count);
  const auto& offsets = batch.segments.offsets;
  const auto ends_s = at::tensor(std::vector<int64_t>(offsets.begin() + 1, offsets.end())) - 1;
  return ops::labelled_positions(batch.targets_t.index_fill(0, ends_s.to(batch.targets_t.device()), 0), count);
}

model::ForwardInput forward_input(const data::Batch& batch) {
  model::ForwardInput input{.tokens_t = batch.tokens_t, .positions_t = batch.positions_t, .segments = batch.segments};
  input.offsets_s = batch.offsets_s;
  input.routed_experts_tlk = batch.routed_experts_tlk;
  input.images = {batch.images.patches_pr, batch.images.grids, batch.images.rows_n};
  input.audio = {batch.audio.frames_fm, batch.audio.lengths, batch.audio.rows_n};
  return input;
}

}  // namespace hone::train
