#include "hone/ops/cpu/delta_step.h"

#include <cmath>

#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/parallel.h"
#include "hone/ops/cpu/vector/delta_step.h"

namespace hone::ops::cpu {
namespace {

constexpr int64_t kStateGrain = 2048;  // minimum elements per thread, about ten microseconds

// Heads of each row next to each other, rows anywhere.
Tensor with_whole_rows(const Tensor& x_bhk) {
  return x_bhk.stride(2) == 1 && x_bhk.stride(1) == x_bhk.size(2) ? x_bhk : x_bhk.contiguous();
}

}  // namespace

bool supports_conv_step(const Tensor& x_bc, const Tensor& weight, const Tensor& state_sck) {
  return supports(x_bc) && weight.scalar_type() == x_bc.scalar_type() && state_sck.scalar_type() == x_bc.scalar_type() &&
         weight.size(-1) == kConvSteps && weight.is_contiguous() && state_sck.stride(1) == 1;
}

Tensor conv_step(const Tensor& x_bc, const Tensor& weight, const Tensor& state_sck, const Tensor& slots_b) {
  const auto x = x_bc.stride(1) == 1 ? x_bc : x_bc.contiguous();
  auto y_bc = at::empty(x.sizes(), x.options());
  const int64_t channels = x.size(1), pieces = (channels + kStateGrain - 1) / kStateGrain;
  const auto* slots = slots_b.const_data_ptr<int64_t>();
  with_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const auto *from = x.const_data_ptr<T>(), *weights = weight.const_data_ptr<T>();
    auto *past = const_cast<T*>(state_sck.const_data_ptr<T>()), *to = y_bc.template mutable_data_ptr<T>();
    parallel_pieces(x.size(0) * pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t row = task / pieces, first = task % pieces * kStateGrain, count = std::min(kStateGrain, channels - first);
        conv_step_span(from + row * x.stride(0) + first, weights + first * kConvSteps,
                       past + slots[row] * state_sck.stride(0) + first, state_sck.stride(2), to + row * channels + first, count);
      }
    });
  });
  return y_bc;
}

bool supports_delta_step(const Tensor& v_bhv, const Tensor& state_shkv) {
  return supports(v_bhv) && state_shkv.is_contiguous() && state_shkv.scalar_type() == at::kFloat &&
         state_shkv.size(2) <= kMaxDeltaKeys;
}

Tensor delta_step(const Tensor& q_bhk, const Tensor& k_bhk, const Tensor& v_bhv, const Tensor& log_decay_bh,
                  const Tensor& beta_bh, const Tensor& state_shkv, const Tensor& slots_b) {
  const auto q = with_whole_rows(q_bhk), k = with_whole_rows(k_bhk), v = with_whole_rows(v_bhv);
  const auto decay = log_decay_bh.to(at::kFloat).contiguous(), beta = beta_bh.to(at::kFloat).contiguous();
  auto y_bhv = at::empty(v.sizes(), v.options());
  const int64_t heads = v.size(1), values = v.size(2), keys = k.size(2), groups = heads / k.size(1);
  const auto* slots = slots_b.const_data_ptr<int64_t>();
  const auto *decays = decay.const_data_ptr<float>(), *betas = beta.const_data_ptr<float>();
  auto* states = const_cast<float*>(state_shkv.const_data_ptr<float>());
  with_type(v.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const auto *queries = q.const_data_ptr<T>(), *of_keys = k.const_data_ptr<T>(), *of_values = v.const_data_ptr<T>();
    auto* to = y_bhv.template mutable_data_ptr<T>();
    parallel_pieces(v.size(0) * heads, std::max<int64_t>(1, kStateGrain / (keys * values)), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t row = task / heads, head = task % heads, key_head = head / groups;
        delta_step_head(queries + row * q.stride(0) + key_head * keys, of_keys + row * k.stride(0) + key_head * keys,
                        of_values + row * v.stride(0) + head * values, std::exp(decays[task]), betas[task],
                        states + (slots[row] * heads + head) * keys * values, to + task * values, keys, values);
      }
    });
  });
  return y_bhv;
}

}  // namespace hone::ops::cpu
