#include "hone/model/pooling.h"

#include "hone/base/error.h"

namespace hone::model {

namespace {

Tensor last_tokens(const ops::CuSeqlens& segments, at::Device device) {
  std::vector<int64_t> ends;
  for (int64_t i = 0; i < segments.count(); ++i) ends.push_back(segments.offsets[static_cast<size_t>(i) + 1] - 1);
  return at::tensor(ends, at::kLong).to(device);
}

}  // namespace

Tensor pool_last_token(CausalLM& model, const ForwardInput& input) {
  auto pooled = input;
  pooled.output_rows_r = last_tokens(input.segments, model.device());
  return model.hidden_states(pooled);
}

Tensor last_token_states(const Tensor& hidden_th, const ops::CuSeqlens& segments) {
  return hidden_th.index_select(0, last_tokens(segments, hidden_th.device()));
}

Tensor classification_logits(CausalLM& model, const Tensor& states_sh) {
  HONE_CHECK(model.config().num_labels > 0, "{} has no classes", model.config().architecture);
  return model.logits(states_sh).to(at::kFloat);
}

Tensor normalize_embeddings(const Tensor& states_sh) {
  auto states = states_sh.to(at::kFloat);
  return states / states.norm(2, 1, /*keepdim=*/true).clamp_min(1e-12);
}

Tensor yes_no_logits(CausalLM& model, const Tensor& states_sh, text::TokenId yes, text::TokenId no) {
  const auto& head = std::as_const(model).head();
  auto rows = head.compute_weight().index_select(
      0, at::tensor({static_cast<int64_t>(yes), static_cast<int64_t>(no)}, at::kLong).to(states_sh.device()));
  auto logits = at::matmul(states_sh.to(at::kFloat), rows.to(at::kFloat).t());
  return logits.select(1, 0) - logits.select(1, 1);
}

Tensor token_logps(CausalLM& model, const Tensor& states_sh, const std::vector<text::TokenId>& tokens) {
  std::vector<int64_t> columns(tokens.begin(), tokens.end());
  return model.logits(states_sh)
      .to(at::kFloat)
      .log_softmax(1)
      .index_select(1, at::tensor(columns, at::kLong).to(states_sh.device()));
}

}  // namespace hone::model
