#include "hone/ops/cpu/gemm/upcast_gemm.h"

#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/baddbmm_cpu_dispatch.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include "hone/device/cpu_features.h"
#include "hone/ops/cpu/gemm/panel_gemm.h"
#include "hone/ops/linear/matmul.h"

namespace hone::ops::cpu {
namespace {

constexpr int64_t kUpcastElements = int64_t{1}
                                    << 20;  // of the right operand, 4 MB in float32: stays in the cache between upcast and use
constexpr int64_t kUpcastRows = 512;        // minimum rows of the left operand, so that upcasting the right one again is cheap

Tensor upcast(const Tensor& x) { return x.to(at::kFloat); }

// body(first, count) over blocks of `size`.
template <class Body>
void for_upcast_blocks(int64_t size, int64_t step, Body body) {
  for (int64_t first = 0; first < size; first += step) body(first, std::min(step, size - first));
}

// One block of rows of the left operand, already float32. The right one is split along its contiguous axis: a transposed weight
// by columns, others by rows, whose products are added.
void multiply_upcast(const Tensor& a32, const Tensor& b, const Tensor& bias, const Tensor& out) {
  const bool by_columns = b.stride(0) <= b.stride(1);
  const int64_t step = std::max<int64_t>(64, kUpcastElements / std::max<int64_t>(1, b.size(by_columns ? 0 : 1)));
  if (by_columns || b.size(0) <= step) {
    for_upcast_blocks(b.size(1), by_columns ? step : std::max<int64_t>(1, b.size(1)), [&](int64_t first, int64_t count) {
      auto part = at::cpu::mm(a32, upcast(b.narrow(1, first, count)));
      if (bias.defined()) part.add_(bias.narrow(0, first, count));
      out.narrow(1, first, count).copy_(part);
    });
    return;
  }
  auto sum = at::zeros({a32.size(0), b.size(1)}, a32.options());
  for_upcast_blocks(b.size(0), step, [&](int64_t first, int64_t count) {
    at::cpu::addmm_(sum, a32.narrow(1, first, count), upcast(b.narrow(0, first, count)));
  });
  if (bias.defined()) sum.add_(bias);
  out.copy_(sum);
}

bool computes_upcast(const Tensor& a, const Tensor& b, const Tensor& out) {
  return is_upcast(a) && b.is_cpu() && a.scalar_type() == b.scalar_type() && a.scalar_type() == out.scalar_type();
}

// Replaces libtorch's operators. Cases that are not upcast call the original kernel.
Tensor mm_upcast(const Tensor& a, const Tensor& b) {
  if (!computes_upcast(a, b, a) || a.dim() != 2 || b.dim() != 2 || a.size(1) != b.size(0)) return at::cpu::mm(a, b);
  auto out = at::empty({a.size(0), b.size(1)}, a.options());
  upcast_gemm(a, b, {}, out);
  return out;
}
Tensor& mm_out_upcast(const Tensor& a, const Tensor& b, Tensor& out) {
  if (!computes_upcast(a, b, out)) return at::cpu::mm_outf(a, b, out);
  auto product = mm_upcast(a, b);
  return out.resize_(product.sizes()).copy_(product);
}
Tensor bmm_upcast(const Tensor& a, const Tensor& b) {
  return computes_upcast(a, b, a) ? at::cpu::bmm(upcast(a), upcast(b)).to(a.scalar_type()) : at::cpu::bmm(a, b);
}
Tensor& bmm_out_upcast(const Tensor& a, const Tensor& b, Tensor& out) {
  if (!computes_upcast(a, b, out)) return at::cpu::bmm_outf(a, b, out);
  auto product = bmm_upcast(a, b);
  return out.resize_(product.sizes()).copy_(product);
}
Tensor addmm_upcast(const Tensor& x, const Tensor& a, const Tensor& b, const at::Scalar& beta, const at::Scalar& alpha) {
  if (!computes_upcast(a, b, x)) return at::cpu::addmm(x, a, b, beta, alpha);
  return at::cpu::addmm(upcast(x), upcast(a), upcast(b), beta, alpha).to(x.scalar_type());
}
Tensor& addmm_out_upcast(const Tensor& x, const Tensor& a, const Tensor& b, const at::Scalar& beta, const at::Scalar& alpha,
                         Tensor& out) {
  if (!computes_upcast(a, b, x) || out.scalar_type() != x.scalar_type()) return at::cpu::addmm_outf(x, a, b, beta, alpha, out);
  auto sum = addmm_upcast(x, a, b, beta, alpha);
  return out.resize_(sum.sizes()).copy_(sum);
}
Tensor& addmm_in_place_upcast(Tensor& x, const Tensor& a, const Tensor& b, const at::Scalar& beta, const at::Scalar& alpha) {
  return computes_upcast(a, b, x) ? x.copy_(addmm_upcast(x, a, b, beta, alpha)) : at::cpu::addmm_(x, a, b, beta, alpha);
}
Tensor baddbmm_upcast(const Tensor& x, const Tensor& a, const Tensor& b, const at::Scalar& beta, const at::Scalar& alpha) {
  if (!computes_upcast(a, b, x)) return at::cpu::baddbmm(x, a, b, beta, alpha);
  return at::cpu::baddbmm(upcast(x), upcast(a), upcast(b), beta, alpha).to(x.scalar_type());
}
Tensor& baddbmm_out_upcast(const Tensor& x, const Tensor& a, const Tensor& b, const at::Scalar& beta, const at::Scalar& alpha,
                           Tensor& out) {
  if (!computes_upcast(a, b, x) || out.scalar_type() != x.scalar_type()) return at::cpu::baddbmm_outf(x, a, b, beta, alpha, out);
  auto sum = baddbmm_upcast(x, a, b, beta, alpha);
  return out.resize_(sum.sizes()).copy_(sum);
}
Tensor& baddbmm_in_place_upcast(Tensor& x, const Tensor& a, const Tensor& b, const at::Scalar& beta, const at::Scalar& alpha) {
  return computes_upcast(a, b, x) ? x.copy_(baddbmm_upcast(x, a, b, beta, alpha)) : at::cpu::baddbmm_(x, a, b, beta, alpha);
}

// libtorch warns when a kernel is registered over its own.
struct NoWarnings : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

struct UpcastGemmLibrary {
  torch::Library aten{torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__};

  UpcastGemmLibrary() {
    NoWarnings silent;
    c10::WarningUtils::WarningHandlerGuard guard(&silent);
    aten.impl("mm", TORCH_FN(mm_upcast));
    aten.impl("mm.out", TORCH_FN(mm_out_upcast));
    aten.impl("bmm", TORCH_FN(bmm_upcast));
    aten.impl("bmm.out", TORCH_FN(bmm_out_upcast));
    aten.impl("addmm", TORCH_FN(addmm_upcast));
    aten.impl("addmm.out", TORCH_FN(addmm_out_upcast));
    aten.impl("addmm_", TORCH_FN(addmm_in_place_upcast));
    aten.impl("baddbmm", TORCH_FN(baddbmm_upcast));
    aten.impl("baddbmm.out", TORCH_FN(baddbmm_out_upcast));
    aten.impl("baddbmm_", TORCH_FN(baddbmm_in_place_upcast));
  }
};

}  // namespace

void upcast_gemm(const Tensor& a, const Tensor& b, const Tensor& bias, Tensor out) {
  if (has_panel_gemm()) return panel_gemm(a, b, bias, out);
  const int64_t rows = std::max(kUpcastRows, 4 * kUpcastElements / std::max<int64_t>(1, a.size(1)));
  for_upcast_blocks(a.size(0), rows, [&](int64_t first, int64_t count) {
    multiply_upcast(upcast(a.narrow(0, first, count)), b, bias, out.narrow(0, first, count));
  });
}

void install_upcast_gemm() { static const UpcastGemmLibrary kLibrary; }

}  // namespace hone::ops::cpu
