#include "hone/optim/optimizers/blockwise_quantized.h"

#include <algorithm>
#include <cmath>

namespace hone::optim {
namespace {

// A code is (sign,) a decimal exponent in unary, and a linear fraction in the remaining bits: values ten times smaller have half
// the resolution. The fractions of a decade are the midpoints of equal parts of [0.1, 1].
std::vector<float> dynamic_code(bool has_sign) {
  constexpr int kExponentBits = 7;
  std::vector<float> values = {0.0F, 1.0F};
  for (int exponent = 0; exponent < kExponentBits; ++exponent) {
    const int parts = 1 << (has_sign ? exponent : exponent + 1);
    const double decade = std::pow(10.0, exponent - (kExponentBits - 1));
    for (int part = 0; part < parts; ++part) {
      const double middle = 0.1 + 0.9 * (part + 0.5) / parts;
      values.push_back(static_cast<float>(decade * middle));
      if (has_sign) values.push_back(static_cast<float>(-decade * middle));
    }
  }
  std::ranges::sort(values);
  values.resize(256, values.back());
  return values;
}

}  // namespace

BlockwiseQuantized::BlockwiseQuantized(const Tensor& like, bool has_sign) : shape_(like.sizes().vec()) {
  const auto options = like.options().dtype(at::kFloat).requires_grad(false);
  if (like.numel() < kMinimumElements) {
    plain_ = at::zeros(shape_, options);
    return;
  }
  auto code = dynamic_code(has_sign);
  Tensor table = at::tensor(code, at::kFloat);
  bounds_ = ((table.slice(0, 1) + table.slice(0, 0, -1)) / 2).to(like.device());
  const auto zero = std::ranges::find(code, 0.0F) - code.begin();
  const int64_t blocks = (like.numel() + kBlock - 1) / kBlock;
  codes_ = at::full({blocks, kBlock}, zero, options.dtype(at::kByte));
  scales_ = at::zeros({blocks}, options);
  table_ = table.to(like.device());
}

Tensor BlockwiseQuantized::dequantize() const {
  if (plain_.defined()) return plain_;
  Tensor blocks = table_.index_select(0, codes_.flatten().to(at::kInt)).view_as(codes_).mul_(scales_.unsqueeze(1));
  const int64_t elements = c10::multiply_integers(shape_);
  return blocks.flatten().slice(0, 0, elements).view(shape_);
}

void BlockwiseQuantized::quantize(const Tensor& values) {
  if (plain_.defined()) {
    plain_.copy_(values);
    return;
  }
  Tensor flat = values.flatten();
  Tensor blocks = at::constant_pad_nd(flat, {0, codes_.numel() - flat.numel()}).view_as(codes_);
  scales_.copy_(blocks.abs().amax(1));
  Tensor normal = blocks / scales_.clamp_min(1e-38).unsqueeze(1);
  codes_.copy_(at::bucketize(normal, bounds_, /*out_int32=*/true));
}

void BlockwiseQuantized::visit(const Optimizer::StateVisitor& visit, const std::string& name) {
  if (plain_.defined()) {
    visit(name, plain_);
    return;
  }
  visit(name + ".codes", codes_);
  visit(name + ".scales", scales_);
}

}  // namespace hone::optim
