// The protocol's losses: each a sum over tokens of log-probabilities with gradients, never a mean.
#pragma once
#include "hone/device/tensor.h"
#include "hone/tinker/wire/forward_backward.h"

namespace hone::tinker {

// The inputs of a loss besides the log-probabilities, for each element of target_tokens.
struct TokenTensors {
  Tensor weights;                // cross_entropy
  Tensor old_logps, advantages;  // of policies
};

class TokenLoss {
 public:
  // Throws RequestError for an unknown loss or setting.
  TokenLoss(std::string name, const std::map<std::string, double>& config);

  // Throws RequestError if the datum lacks a tensor, or has one of another shape than its target_tokens.
  void check(const Datum& datum) const;
  // The tensors of these datums, concatenated.
  TokenTensors tensors(const std::vector<const Datum*>& data, at::Device device) const;
  Tensor sum(const Tensor& logps, const TokenTensors& tensors) const;

 private:
  std::string name_;
  double low_ = 0, high_ = 0, beta_ = 0;
};

}  // namespace hone::tinker
