#include "hone/serve/openai/embed_model.h"

#include "hone/device/tensor.h"
#include "hone/model/causal_lm.h"

namespace hone::serve {
namespace {

std::vector<float> embed_one(model::CausalLM& model, const std::vector<text::TokenId>& ids, Pooling pooling) {
  auto count = static_cast<int64_t>(ids.size());
  auto tokens_t = at::empty({count}, at::kLong);
  std::copy(ids.begin(), ids.end(), tokens_t.data_ptr<int64_t>());
  model::Input input{tokens_t.to(model.device()), at::arange(count, at::TensorOptions(at::kLong).device(model.device())),
                     ops::Segments{{0, count}}};
  auto hidden_th = model.hidden(input).to(at::kFloat);
  auto pooled_h = pooling == Pooling::last ? hidden_th.select(0, count - 1) : hidden_th.mean(0);
  auto unit_h = (pooled_h / pooled_h.norm().clamp_min(1e-12)).cpu().contiguous();
  return {unit_h.data_ptr<float>(), unit_h.data_ptr<float>() + unit_h.numel()};
}

}  // namespace

Embed make_embed(model::CausalLM& model) {
  return [&model](const std::vector<text::TokenId>& ids, Pooling pooling) {
    at::NoGradGuard no_grad;
    return embed_one(model, ids, pooling);
  };
}

}  // namespace hone::serve
