// The leaf modules of a model: each holds a parameter and its Hugging Face name. Tuners find and change them; blocks call them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hone/device/tensor.h"
#include "hone/model/linear_tuner.h"
#include "hone/ops/linear/multi_lora.h"
#include "hone/ops/quantization/quantized_linear.h"
#include "hone/ops/quantization/quantized_tensor.h"

namespace hone::model {

// Call options of a layer: dropout of adapters applies in training; `rows`, in inference, selects rows that add an adapter which
// is not active.
struct LinearContext {
  bool training = false;
  const ops::LoraMapping* rows = nullptr;
  const Tensor* added_to = nullptr;  // of a block's last layer: the residual that its output is added to
  bool unread = false;               // of a block's last layer: only the gradients of its output are needed
};

// A float32 shape without memory, which a loader fills.
Tensor meta_tensor(at::IntArrayRef shape);

struct Linear {
  std::string name;  // "model.layers.0.self_attn.q_proj": the parameter is name + ".weight"
  Tensor weight, bias;
  std::vector<ops::LoraWeights> adapters;
  std::shared_ptr<const ops::QuantizedTensor>
      quantized_base;                                  // what `weight`, then only a shape without memory, is restored from
  std::shared_ptr<const ops::PackedWeight> quantized;  // computed with instead of `weight` once set, which then is a shape only
  bool float8 = false;                                 // the product is one of 8-bit floats …
  ops::Float8Weight float8_weight;  // … with these, where the weight is frozen and the device has such products
  std::vector<std::shared_ptr<LinearTuner>> tuners;  // around the product, the first innermost

  Tensor operator()(const Tensor& x, const LinearContext& mode) const;
  Tensor compute_weight() const;  // the weight to compute with
  void quantize_base(const ops::WeightQuantization& how);
  // Quantized again in every product; not a weight that is stored as float8.
  bool rounds_weight() const { return float8 && !float8_weight.defined(); }
  // Has adapters or tuners, so that its plain product is not its output.
  bool is_tuned() const { return !adapters.empty() || !tuners.empty(); }

 private:
  Tensor product(const Tensor& x, const LinearContext& mode) const;
  Tensor tuned(const Tensor& x, const LinearContext& mode, size_t count) const;  // through the first `count` tuners
};

// A weight that supports low-rank updates.
enum class SlotKind { linear, embedding, router, experts };
struct AdapterSlot {
  std::string path;   // of the module; of experts: of the parameter
  std::string owner;  // what PEFT's names of its matrices begin with
  SlotKind kind;
  Tensor* weight;
  std::vector<ops::LoraWeights>* adapters;
};

struct Norm {
  std::string name;
  Tensor weight;
  double eps = 1e-6;
  bool zero_centered = false;  // `weight` is the distance from 1
  double scale = 1;            // of its output
  Tensor bias = {};            // defined: LayerNorm instead of RMSNorm

  Tensor operator()(const Tensor& x) const;
  void divide(const Tensor& by);  // the output scales
  bool is_plain_rms() const { return !zero_centered && scale == 1 && !bias.defined(); }
  bool is_zero_centered_rms() const { return zero_centered && scale == 1 && !bias.defined(); }
};

// A tensor outside any layer, under its full name.
struct Parameter {
  std::string name;
  Tensor weight;
};

struct Embedding {
  std::string name;
  Tensor weight;                           // [vocabulary, hidden]
  std::vector<ops::LoraWeights> adapters;  // PEFT's lora_embedding_A / _B
  double scale = 1;                        // of its output

  Tensor operator()(const Tensor& tokens, const ops::LoraMapping& rows = {}) const;
};

}  // namespace hone::model
