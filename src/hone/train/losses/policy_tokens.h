// The tokens of a batch's completions, concatenated, and the tensors of a policy loss.
#pragma once
#include <functional>

#include "hone/device/tensor.h"
#include "hone/train/losses/token_logps.h"

namespace hone::train {

// N tokens of S completions.
struct PolicyTokens {
  Tensor logps_n, old_n, reference_n, advantages_n;
  Tensor sampler_n;     // undefined: the sampling policy is the trained one
  Tensor teacher_n;     // undefined: there is none
  Tensor mask_n;        // float: 0 for masked tokens
  Tensor uncertain_n;   // float: 0 for tokens of low entropy that do not train; undefined: none
  Tensor completion_n;  // index of the completion
  Tensor advantages_s, truncated_s;
  int64_t completions = 0;
  int64_t group_size = 0;  // if completions of a prompt are compared with each other

  Tensor log_ratio() const { return logps_n - old_n; }
  Tensor per_sequence(const Tensor& values_n) const { return sum_by_sequence(values_n * mask_n, completion_n, completions); }
  Tensor lengths_s() const { return sum_by_sequence(mask_n, completion_n, completions).clamp_min(1); }
  Tensor mean_s(const Tensor& values_n) const { return per_sequence(values_n) / lengths_s(); }
  Tensor mean(const Tensor& values_n) const { return (values_n * mask_n).sum() / mask_n.sum().clamp_min(1); }
  Tensor per_token(const Tensor& values_s) const { return values_s.index_select(0, completion_n); }
};

// For each token, the discounted sum over the following tokens of its completion, itself included. Sums
// over twice as many tokens are combined from two, so that a device processes all tokens in parallel without a host sync.
Tensor discounted_futures(const Tensor& values_n, const Tensor& completion_n, double discount);

// For the first completions of a run (later calls do nothing), when both have the same version of the weights. `difference`: of
// the log-probabilities, a mean per token. Warns if kernels and data types do not explain it: the sampler has another model.
void compare_models(const std::function<double()>& difference);

}  // namespace hone::train
