#include "hone/model/pooling.h"

#include "hone/base/error.h"
#include "hone/device/autograd.h"
#include "hone/model/decoder.h"
#include "hone/ops/loss/vocabulary_shard.h"

namespace hone::model {
namespace {

// Sums each tensor parallel rank's part of the values. All ranks continue identically, so each has the full gradient.
struct SumOfShards : torch::autograd::Function<SumOfShards> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& partial, const ops::VocabularyShard* shard) {
    auto total = partial.clone(at::MemoryFormat::Contiguous);
    shard->all_reduce_sum(total);
    return total;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*, const torch::autograd::variable_list& grads) {
    return {grads[0], Tensor()};
  }
};

// Rows of a head's weight, float32 [N, hidden]; zeros for words on other tensor parallel ranks.
Tensor head_rows(const Linear& head, const Tensor& words_n, const ops::VocabularyShard* shard) {
  const auto weight = head.compute_weight();
  if (!shard) return weight.index_select(0, words_n).to(at::kFloat);
  const auto places_n = words_n - shard->begin;
  const auto foreign_n = (places_n < 0).logical_or(places_n >= weight.size(0));
  return weight.index_select(0, places_n.masked_fill(foreign_n, 0)).to(at::kFloat).masked_fill(foreign_n.unsqueeze(1), 0);
}

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

Tensor embeddings(CausalLM& model, const Tensor& states_sh) {
  auto* region = model.decoder().region;
  return normalize_embeddings(region ? region->replicated(states_sh) : states_sh);
}

Tensor normalize_embeddings(const Tensor& states_sh) {
  auto states = states_sh.to(at::kFloat);
  return states / states.norm(2, 1, /*keepdim=*/true).clamp_min(1e-12);
}

Tensor yes_no_logits(CausalLM& model, const Tensor& states_sh, text::TokenId yes, text::TokenId no) {
  const auto words_n = at::tensor({static_cast<int64_t>(yes), static_cast<int64_t>(no)}, at::kLong).to(states_sh.device());
  const auto* region = model.decoder().region;
  const auto* shard = region ? region->vocabulary() : nullptr;
  auto logits = at::matmul(states_sh.to(at::kFloat), head_rows(std::as_const(model).head(), words_n, shard).t());
  if (shard) logits = SumOfShards::apply(logits, shard);
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
