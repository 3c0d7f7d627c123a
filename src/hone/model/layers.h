// The leaves of a model: what holds a parameter and knows its Hugging Face name. Tuners find and change them; blocks call them.
#pragma once
#include <string>
#include <vector>

#include "hone/device/tensor.h"
#include "hone/ops/lora_linear.h"

namespace hone::model {

struct Linear {
  std::string name;  // "model.layers.0.self_attn.q_proj": the parameter is name + ".weight"
  Tensor weight, bias;
  std::vector<ops::LoraWeights> adapters;

  Tensor operator()(const Tensor& x, bool training) const { return ops::lora_linear(x, weight, bias, adapters, training); }
};

struct Norm {
  std::string name;
  Tensor weight;
  double eps = 1e-6;

  Tensor operator()(const Tensor& x) const;
};

struct Embedding {
  std::string name;
  Tensor weight;  // [vocabulary, hidden]
  std::vector<ops::LoraWeights> adapters;  // PEFT's lora_embedding_A / _B

  Tensor operator()(const Tensor& tokens) const;
};

// A parameter under its Hugging Face name. `value` refers to the leaf that owns it, so that a tuner may replace it.
struct NamedParameter {
  std::string name;
  Tensor* value;
};

}  // namespace hone::model
