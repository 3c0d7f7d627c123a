// Frozen weights in 4 or 8 bits, in bitsandbytes' codes: what QLoRA trains on. They are restored layer by layer for as long as a
// layer computes; with activation checkpointing no more than one block is ever whole.
#pragma once
#include <memory>

#include "hone/device/tensor.h"
#include "hone/ops/quantization/groupwise_quantization.h"

namespace hone::ops {

// Of 4 bits: quantiles of a normal distribution, or a float of 4 bits, with a scale for every 64 weights. Of 8: a scale for each
// row. Grouped: HQQ's and quanto's, of 1 to 8 bits.
enum class QuantType { nf4, fp4, int8, grouped };
const char* code_name(QuantType code);

struct WeightQuantization {
  QuantType code = QuantType::nf4;
  bool double_quant = false;     // scales of 4-bit codes take 8 bits too ("double quantization")
  GroupwiseConfig grouped = {};  // of grouped codes; quanto's group follows the layer
};

// How a weight is stored, for writing it into files. Tables give the values of the codes.
struct QuantizedTensorParts {
  Tensor codes, scales, outer, table, scale_table;
  double offset = 0;
};

class QuantizedTensor {
 public:
  QuantizedTensor(const Tensor& weight, const WeightQuantization& how);  // [out, in], of any floating type and on any device

  Tensor dequantize(at::ScalarType type) const;
  size_t bytes() const;  // held
  QuantizedTensorParts parts() const;

 private:
  Tensor scales() const;
  WeightQuantization how_;
  std::vector<int64_t> shape_;
  Tensor codes_;       // uint8, as many codes in each as it has room for; or int8
  Tensor scales_;      // float32, or uint8 codes of them …
  Tensor outer_;       // … with their own scales, float32, one for 256; of grouped codes, their zeros
  double offset_ = 0;  // … around this mean
};

}  // namespace hone::ops
