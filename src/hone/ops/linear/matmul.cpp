#include "hone/ops/linear/matmul.h"

#include "hone/device/cpu_features.h"
#include "hone/device/device.h"
#include "hone/ops/cpu/gemm/panel_gemm.h"
#include "hone/ops/cpu/gemm/skinny_gemm.h"
#include "hone/ops/cpu/gemm/upcast_gemm.h"
#include "hone/ops/cuda/thin_linear.h"

namespace hone::ops {
namespace {

// For 16-bit products on a CPU, oneDNN compiles and caches code for every shape,
// 0.7 MB each. If the number of rows is not the caller's choice, rows therefore come in few sizes: full pieces, and a last one
// padded to a multiple of the step.
constexpr int64_t kPieceRows = 1024, kRowStep = 64;

bool is_compiled_by_shape(const Tensor& x) {
  return x.is_cpu() && (x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf) && !at::GradMode::is_enabled();
}

// product(rows, to) over pieces of x, concatenated.
template <class Product>
Tensor in_pieces(const Tensor& x, int64_t outputs, Product product) {
  auto y = at::empty({x.size(0), outputs}, x.options());
  for (int64_t begin = 0; begin < x.size(0); begin += kPieceRows) {
    int64_t count = std::min(kPieceRows, x.size(0) - begin), filling = (kRowStep - count % kRowStep) % kRowStep;
    auto rows = x.narrow(0, begin, count), to = y.narrow(0, begin, count);
    if (filling == 0) {
      product(rows, to);
    } else {
      auto filled = at::empty({count + filling, outputs}, x.options());
      product(at::constant_pad_nd(rows, {0, 0, 0, filling}), filled);
      to.copy_(filled.narrow(0, 0, count));
    }
  }
  return y;
}

std::optional<bool>& forced() {
  static std::optional<bool> value;
  return value;
}

// On Arm all other 16-bit products are widened too.
[[maybe_unused]] const bool kInstalled = [] {
  if (device::cpu_features().scalar_16_bit_gemm) cpu::install_upcast_gemm();
  return true;
}();

bool is_recorded(const Tensor& a, const Tensor& b) {
  return at::GradMode::is_enabled() && (a.requires_grad() || b.requires_grad());
}

// Without libtorch: types without native instructions, and those whose panel GEMM is faster than libtorch's BLAS.
bool by_own_gemm(const Tensor& a, const Tensor& b) {
  if (is_upcast(b)) return true;
  return a.is_cpu() && cpu::prefers_panel_gemm(a.scalar_type()) && b.scalar_type() == a.scalar_type() && !is_recorded(a, b);
}

Tensor multiplied_here(const Tensor& a, const Tensor& b, const Tensor& bias) {
  auto y = at::empty({a.size(0), b.size(1)}, a.options());
  cpu::upcast_gemm(a, b, bias, y);
  return y;
}

}  // namespace

bool is_upcast(const Tensor& weight) {
  if (!weight.is_cpu() || (weight.scalar_type() != at::kBFloat16 && weight.scalar_type() != at::kHalf)) return false;
  if (forced()) return *forced();
  return !(weight.scalar_type() == at::kHalf ? device::supports_float16(weight.device())
                                             : device::supports_bfloat16(weight.device()));
}

void force_upcast(std::optional<bool> widen) { forced() = widen; }

Tensor matmul_nt(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (cpu::supports_skinny(x, weight)) return cpu::skinny_gemm(x, weight, bias);
  if (cuda::supports_thin(x, weight)) return cuda::thin_linear(x, weight, bias);
  if (by_own_gemm(x, weight)) return multiplied_here(x, weight.t(), bias);
  if (is_compiled_by_shape(x))
    return in_pieces(x, weight.size(0), [&](const Tensor& rows, Tensor& to) {
      bias.defined() ? at::addmm_out(to, bias, rows, weight.t()) : at::mm_out(to, rows, weight.t());
    });
  return bias.defined() ? at::addmm(bias, x, weight.t()) : at::mm(x, weight.t());
}

Tensor matmul_nn(const Tensor& dy, const Tensor& weight) {
  if (by_own_gemm(dy, weight)) return multiplied_here(dy, weight, {});
  if (is_compiled_by_shape(dy))
    return in_pieces(dy, weight.size(1), [&](const Tensor& rows, Tensor& to) { at::mm_out(to, rows, weight); });
  return at::mm(dy, weight);
}

Tensor matmul_tn(const Tensor& dy, const Tensor& x) {
  return by_own_gemm(dy, x) ? multiplied_here(dy.t(), x, {}) : at::mm(dy.t(), x);
}

void add_matmul_tn_(Tensor& sum, const Tensor& dy, const Tensor& x) {
  if (dy.numel() == 0) return;
  if (by_own_gemm(dy, x))
    cpu::panel_gemm(dy.t(), x, cpu::PanelUpdate{.adds = true}, sum);
  else
    sum.addmm_(dy.t(), x);
}

}  // namespace hone::ops
