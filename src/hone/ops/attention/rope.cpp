#include "hone/ops/attention/rope.h"

#include "hone/base/error.h"
#include "hone/device/autograd.h"
#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/rope.h"
#include "hone/ops/cuda/fused.h"
#include "hone/ops/cuda/training.h"
#include "hone/ops/fused_operators.h"
#include "hone/ops/npu/boxed.h"
#include "hone/ops/npu/fused.h"

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor rotate_rows(const Tensor& x, const Tensor& cos, const Tensor& sin, float direction) {
  auto rows = x.contiguous();
  auto y = at::empty_like(rows);
  if (x.is_cuda())
    cuda::rope_rows(rows, cos, sin, direction, y);
  else
    cpu::rope(rows, cos, sin, direction, y);
  return y;
}

// The gradient rotates by the negative angle, so only the table is saved.
class Rope : public torch::autograd::Function<Rope> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& cos, const Tensor& sin) {
    ctx->save_for_backward({cos, sin});
    return rotate_rows(x, cos, sin, +1.0f);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    auto saved = ctx->get_saved_variables();
    return {rotate_rows(grads[0], saved[0], saved[1], -1.0f), Tensor(), Tensor()};
  }
};

Tensor rotate_forward(const Tensor& x, const RopeTable& table) {
  return at::GradMode::is_enabled() ? Rope::apply(x, table.cos, table.sin) : rotate_rows(x, table.cos, table.sin, +1.0f);
}

}  // namespace

RopeTable rope_table(const Tensor& positions_t, const Tensor& inverse_frequencies, double magnitude, const Tensor& axes_h) {
  const bool has_axes = positions_t.dim() == 2;
  HONE_CHECK(!has_axes || axes_h.defined(), "positions of {} axes for a rotation of one", positions_t.size(0));
  auto positions = positions_t.to(at::kFloat);
  positions = has_axes ? positions.index_select(0, axes_h).t().contiguous() : positions.unsqueeze(1);
  auto angles = positions * inverse_frequencies.unsqueeze(0);
  auto cos = angles.cos(), sin = angles.sin();
  if (magnitude != 1.0) cos.mul_(magnitude), sin.mul_(magnitude);
  return {cos, sin};
}

Tensor rope_plain(const Tensor& x, const RopeTable& table) {
  int64_t half = table.cos.size(1);
  auto heads = x.view({x.size(0), -1, 2, half});
  auto cos = table.cos.to(x.scalar_type()).unsqueeze(1), sin = table.sin.to(x.scalar_type()).unsqueeze(1);
  auto first = heads.select(2, 0), second = heads.select(2, 1);
  return at::stack({first * cos - second * sin, second * cos + first * sin}, 2).view(x.sizes());
}

Tensor partial_rope(const Tensor& x, const RopeTable& table, int64_t head_dim) {
  const int64_t rotary_dim = 2 * table.cos.size(1);
  if (rotary_dim == head_dim) return rope(x, table);
  const auto parts = x.view({x.size(0), -1, head_dim}).split_with_sizes({rotary_dim, head_dim - rotary_dim}, 2);
  const auto rows = parts[0].reshape({x.size(0), -1});
  return at::cat({rope(rows, table).view(parts[0].sizes()), parts[1]}, 2).view(x.sizes());
}

bool rotates_in_place(const Tensor& x, const RopeTable& table) {
  return fused_operators().rope && cuda::supports_rope(x, table.cos);
}

Tensor rope(const Tensor& x, const RopeTable& table) {
  if (!fused_operators().rope) return rope_plain(x, table);
  if (cuda::supports_fused(x)) return cuda::rope(x, table.cos, table.sin);
  if (cuda::supports_rope(x, table.cos)) return rotate_forward(x, table);
  if (npu::supports(x, "npu_rotary_mul") && x.numel() > 0) return npu::rope(x, table);
  return cpu::supports(x) && x.numel() > 0 ? rotate_forward(x, table) : rope_plain(x, table);
}

}  // namespace hone::ops
