// Frozen weights in 4 or 8 bits, in bitsandbytes' formats: the base of QLoRA. They are dequantized only while a layer computes;
// with activation checkpointing at most one block is dequantized at a time.
#pragma once
#include <memory>

#include "hone/device/tensor.h"
#include "hone/ops/quantization/groupwise_quantization.h"

namespace hone::ops {

// 4 bits: NF4 or FP4, with a scale for every 64 weights. 8 bits:
// a scale per row. Grouped: HQQ's and quanto's, 1 to 8 bits.
enum class QuantType { nf4, fp4, int8, grouped };
const char* code_name(QuantType code);

struct WeightQuantization {
  QuantType code = QuantType::nf4;
  bool double_quant = false;     // scales of 4-bit codes take 8 bits too ("double quantization")
  GroupwiseConfig grouped = {};  // of grouped codes; quanto's group follows the layer
};

// The stored form of a weight, for writing files. Tables contain the values of the codes.
struct QuantizedTensorParts {
  Tensor codes, scales, outer, table, scale_table;
  double offset = 0;
};

class QuantizedTensor {
 public:
  QuantizedTensor(const Tensor& weight, const WeightQuantization& how);  // [out, in], of any floating type and on any device

  Tensor dequantize(at::ScalarType type) const;
  // These rows and columns, which dequantize to the same values as in the full weight, in memory of their own. Throws
  // UserError(usage) if groups of rows (HQQ's axis 0) do not divide.
  struct Range {
    int64_t begin, count;
  };
  std::shared_ptr<const QuantizedTensor> part(const Range& rows, const Range& columns) const;
  std::shared_ptr<const QuantizedTensor> to(at::Device device) const;
  at::Device device() const { return codes_.device(); }
  size_t bytes() const;  // held
  QuantizedTensorParts parts() const;

 private:
  Tensor scales() const;
  void take_part(const QuantizedTensor& whole, const Range& rows, const Range& columns);
  void take_grouped_part(const QuantizedTensor& whole, const Range& rows, const Range& columns);
  QuantizedTensor() = default;

  WeightQuantization how_;
  int64_t block_ = 64;  // 4-bit codes per scale; fewer in a part whose borders divide blocks
  std::vector<int64_t> shape_;
  Tensor codes_;       // uint8, as many codes in each as it has room for; or int8
  Tensor scales_;      // float32, or uint8 codes of them …
  Tensor outer_;       // … with their own scales, float32, one for 256; of grouped codes, their zeros
  double offset_ = 0;  // … around this mean
  // Values of the codes, and of the scales' codes, where there are such. They are kept on the device: a copy from the host in
  // each forward pass would wait for the device, and a CUDA graph cannot hold one.
  Tensor table_, scale_table_;
};

}  // namespace hone::ops
