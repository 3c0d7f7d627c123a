#include "hone/ops/cuda/delta_rule.h"

#include "hone/ops/cuda/with_cuda/delta_heads.cuh"
#include "hone/ops/cuda/with_cuda/delta_solve_backward.cuh"

namespace hone::ops::cuda {
namespace {

using T = __nv_bfloat16;
using namespace delta;

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, size_t shared, const Arguments&... arguments) {
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)));
  kernel<<<grid, kThreads, shared, c10::cuda::getCurrentCUDAStream()>>>(arguments...);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// The largest of the kernels' needs.
bool has_shared_memory(at::Device device) {
  int most = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device.index()));
  return most >= static_cast<int>(std::max({sizeof(SolveShared<T>), sizeof(OutputShared<T>), sizeof(ScanBackShared<T>),
                                            sizeof(ReadGradientShared<T>), sizeof(SolveGradientShared<T>)}));
}

// Heads next to each other in rows that can be read sixteen bytes at a time.
bool has_heads(const at::Tensor& x) {
  return x.is_cuda() && x.scalar_type() == at::kBFloat16 && x.dim() == 3 && x.numel() > 0 && x.size(2) == kDim &&
         x.stride(2) == 1 && (x.size(1) == 1 || x.stride(1) == kDim) && x.stride(0) % 8 == 0 &&
         reinterpret_cast<uint64_t>(x.const_data_ptr()) % 16 == 0;
}

// What the kernels of both passes read and write, and the launches that both begin with.
struct Rule {
  at::Tensor q, k, log_decay, beta, decay, u, w, inverse, states, values;
  RuleArguments<T> arguments;
  dim3 each, scan;

  Rule(const DeltaRuleRows& rows, const DeltaChunks& chunks, bool has_gradients, const at::Tensor& slots,
       const at::Tensor& slot) {
    const auto& v = rows.v;
    const int64_t tokens = v.size(0), heads = v.size(1), key_heads = rows.k.size(1), count = chunks.chunks_n2.size(0);
    q = at::empty({tokens, key_heads, kDim}, v.options()), k = at::empty_like(q);
    const auto blocks = static_cast<unsigned>((tokens * key_heads + kHeadThreads / 32 - 1) / (kHeadThreads / 32));
    normalize_kernel<T><<<blocks, kHeadThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        data<T>(rows.q), data<T>(rows.k), rows.q.stride(0), rows.k.stride(0), mutable_data<T>(q), mutable_data<T>(k), tokens,
        static_cast<int>(key_heads));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    log_decay = rows.log_decay.to(at::kFloat).contiguous(), beta = rows.beta.to(at::kFloat).contiguous();
    u = at::empty({tokens, heads, kDim}, v.options()), w = at::empty_like(u), values = at::empty_like(u);
    states = at::empty({count, heads, kDim, kDim}, v.options());
    decay = at::empty({count, heads, kRows}, beta.options());
    if (has_gradients) inverse = at::empty({count, heads, kRows, kRows}, v.options());
    arguments = {.q = data<T>(q),
                 .k = data<T>(k),
                 .v = data<T>(v),
                 .v_stride = v.stride(0),
                 .log_decay = data<float>(log_decay),
                 .beta = data<float>(beta),
                 .chunks = static_cast<const Chunk*>(chunks.chunks_n2.const_data_ptr()),
                 .segments = data<int>(chunks.segments_s),
                 .key_heads = static_cast<int>(key_heads),
                 .heads = static_cast<int>(heads),
                 .query_scale = 1.0f / std::sqrt(static_cast<float>(kDim)),
                 .decay = mutable_data<float>(decay),
                 .u = mutable_data<T>(u),
                 .w = mutable_data<T>(w),
                 .inverse = has_gradients ? mutable_data<T>(inverse) : nullptr,
                 .states = mutable_data<T>(states),
                 .values = mutable_data<T>(values),
                 .slots = slots.defined() ? mutable_data<float>(slots) : nullptr,
                 .slot = slots.defined() ? data<int64_t>(slot) : nullptr};
    each = dim3(static_cast<unsigned>(count), static_cast<unsigned>(heads));
    scan = dim3(static_cast<unsigned>(chunks.segments_s.size(0) - 1), static_cast<unsigned>(heads), kDim / kSlice);
    launch(solve_kernel<T>, each, sizeof(SolveShared<T>), arguments);
    launch(scan_kernel<T>, scan, sizeof(ScanShared<T>), arguments);
  }
};

}  // namespace

bool supports_delta_rule(const DeltaRuleRows& rows) {
  return has_heads(rows.q) && has_heads(rows.k) && has_heads(rows.v) && has_shared_memory(rows.v.device());
}

at::Tensor delta_rule(const DeltaRuleRows& rows, const DeltaChunks& chunks, const at::Tensor& states, const at::Tensor& slots_s) {
  const Rule rule(rows, chunks, /*has_gradients=*/false, states, slots_s);
  auto y = at::empty_like(rule.values);
  launch(output_kernel<T>, rule.each, sizeof(OutputShared<T>), rule.arguments, mutable_data<T>(y));
  return y;
}

DeltaRuleRows delta_rule_backward(const at::Tensor& dy, const DeltaRuleRows& rows, const DeltaChunks& chunks) {
  const Rule rule(rows, chunks, /*has_gradients=*/true, {}, {});
  const auto& a = rule.arguments;
  const int64_t tokens = rows.v.size(0), heads = a.heads;
  auto like_values = [&] { return at::empty_like(rule.values); };
  auto floats = [&](at::IntArrayRef sizes) { return at::empty(sizes, rule.log_decay.options()); };
  const auto dvalues = like_values(), dq = like_values(), dk = like_values(), dv = like_values(), dw = like_values(),
             dstates = at::empty_like(rule.states), ddecay = floats({chunks.chunks_n2.size(0), heads, kRows}),
             dlog_decay = floats({tokens, heads}), dbeta = floats({tokens, heads});
  const RuleGradients<T> g{data<T>(dy),
                           mutable_data<T>(dvalues),
                           mutable_data<T>(dstates),
                           mutable_data<T>(dq),
                           mutable_data<T>(dk),
                           mutable_data<T>(dv),
                           mutable_data<T>(dw),
                           mutable_data<float>(ddecay),
                           mutable_data<float>(dlog_decay),
                           mutable_data<float>(dbeta)};
  launch(value_gradient_kernel<T>, rule.each, sizeof(ValueGradientShared<T>), a, g);
  launch(scan_back_kernel<T>, rule.scan, sizeof(ScanBackShared<T>), a, g);
  launch(read_gradient_kernel<T>, rule.each, sizeof(ReadGradientShared<T>), a, g);
  launch(solve_gradient_kernel<T>, rule.each, sizeof(SolveGradientShared<T>), a, g);
  DeltaRuleRows found{at::empty_like(rule.q), at::empty_like(rule.k), dv, dlog_decay.to(rows.log_decay.scalar_type()),
                      dbeta.to(rows.beta.scalar_type())};
  const auto blocks = static_cast<unsigned>((tokens * a.key_heads + kHeadThreads / 32 - 1) / (kHeadThreads / 32));
  normalize_gradient_kernel<T><<<blocks, kHeadThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
      data<T>(rows.q), data<T>(rows.k), rows.q.stride(0), rows.k.stride(0), data<T>(dq), data<T>(dk), mutable_data<T>(found.q),
      mutable_data<T>(found.k), tokens, a.key_heads, a.heads / a.key_heads);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return found;
}

}  // namespace hone::ops::cuda
