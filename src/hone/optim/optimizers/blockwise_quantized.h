// A tensor in 8 bits: blocks of 256 values share a scale, and a dynamic code has finer resolution for small magnitudes.
#pragma once
#include "hone/optim/optimizer.h"

namespace hone::optim {

class BlockwiseQuantized {
 public:
  static constexpr int64_t kBlock = 256;
  // Below this many elements the saving is not worth the error; such states stay float32.
  static constexpr int64_t kMinimumElements = 4096;

  BlockwiseQuantized() = default;
  BlockwiseQuantized(const Tensor& like, bool has_sign);  // all zero

  Tensor dequantize() const;  // float32, shape of `like`
  void quantize(const Tensor& values);
  void visit(const Optimizer::StateVisitor& visit, const std::string& name);  // "<name>.codes" and "<name>.scales", or "<name>"

 private:
  std::vector<int64_t> shape_;
  Tensor table_, bounds_;  // the 256 code values, ascending, and the midpoints between them
  Tensor codes_, scales_;  // uint8 [blocks, 256], float32 [blocks]
  Tensor plain_;           // small tensors
};

}  // namespace hone::optim
