#include "hone/ops/cuda/delta_net.h"

#include "hone/ops/cuda/training.h"
#include "hone/ops/cuda/with_cuda/delta_conv.cuh"
#include "hone/ops/cuda/with_cuda/delta_step.cuh"
#include "hone/ops/cuda/with_cuda/gated_norm.cuh"

namespace hone::ops::cuda {
namespace {

using namespace delta;

constexpr int kConvKernel = 4, kTrainedGateBlocks = 132 * 8;

template <class T>
ConvArguments<T> conv_arguments(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& positions) {
  return {data<T>(x),
          x.stride(0),
          data<T>(weight),
          positions.defined() ? data<int64_t>(positions) : nullptr,
          static_cast<int>(x.size(0)),
          static_cast<int>(x.size(1))};
}

template <class T>
dim3 conv_grid(const at::Tensor& x) {
  const int64_t packs = x.size(1) / Pack<T>::kCount;
  return {static_cast<unsigned>((packs + kConvThreads - 1) / kConvThreads),
          static_cast<unsigned>((x.size(0) + kConvRows - 1) / kConvRows)};
}

// Heads next to each other in rows whose lanes can be read at once.
bool has_lanes(const at::Tensor& x) {
  return x.is_cuda() && x.dim() == 3 && x.numel() > 0 && x.size(2) == kHeadDim && x.stride(2) == 1 &&
         (x.size(1) == 1 || x.stride(1) == kHeadDim) && x.stride(0) % 8 == 0 &&
         reinterpret_cast<uint64_t>(x.const_data_ptr()) % 16 == 0;
}

template <class T>
GatedNorm<T> gated_norm_arguments(const at::Tensor& x, const at::Tensor& z, const at::Tensor& weight, double eps) {
  return {data<T>(x), data<T>(z), data<T>(weight), z.stride(0), x.size(0), static_cast<int>(x.size(1)), static_cast<float>(eps)};
}

unsigned blocks_of_heads(const at::Tensor& x) {
  return static_cast<unsigned>((x.size(0) * x.size(1) + kHeadThreads / 32 - 1) / (kHeadThreads / 32));
}

bool is_number(const at::Tensor& x, at::ScalarType type) {
  return x.is_cuda() && x.is_contiguous() && (x.scalar_type() == at::kFloat || x.scalar_type() == type);
}

template <class T>
Numbers<T> numbers(const at::Tensor& x) {
  return {x.const_data_ptr(), x.scalar_type() == at::kFloat};
}

}  // namespace

bool supports_conv_silu(const at::Tensor& x, const at::Tensor& weight) {
  return supports_rows(x) && weight.scalar_type() == x.scalar_type() && weight.is_contiguous() && weight.size(2) == kConvKernel;
}

at::Tensor conv_silu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& positions) {
  auto y = at::empty({x.size(0), x.size(1)}, x.options());
  with_device_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    conv_kernel<T, kConvKernel><<<conv_grid<T>(x), kConvThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        conv_arguments<T>(x, weight, positions), mutable_data<T>(y));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return y;
}

ConvGradients conv_silu_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& positions,
                                 bool trains) {
  ConvGradients found{at::empty({x.size(0), x.size(1)}, x.options()), {}};
  at::Tensor sums;
  with_device_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const auto grid = conv_grid<T>(x);
    if (trains) sums = at::empty({grid.y, kConvKernel, x.size(1)}, x.options().dtype(at::kFloat));
    conv_gradient_kernel<T, kConvKernel><<<grid, kConvThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        conv_arguments<T>(x, weight, positions), data<T>(dy), dy.stride(0), mutable_data<T>(found.x),
        trains ? mutable_data<float>(sums) : nullptr);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  if (trains) found.weight = sums.sum(0).t().reshape(weight.sizes()).to(weight.scalar_type());
  return found;
}

bool supports_gated_norm(const at::Tensor& x, const at::Tensor& z, const at::Tensor& weight) {
  return has_lanes(x) && x.is_contiguous() && has_lanes(z) && is_number(weight, x.scalar_type()) &&
         z.scalar_type() == x.scalar_type() && weight.scalar_type() == x.scalar_type() &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16);
}

at::Tensor gated_norm(const at::Tensor& x, const at::Tensor& z, const at::Tensor& weight, double eps) {
  auto y = at::empty_like(x);
  with_device_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    gated_norm_kernel<T><<<blocks_of_heads(x), kHeadThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        gated_norm_arguments<T>(x, z, weight, eps), mutable_data<T>(y));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return y;
}

GatedNormGradients gated_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& z, const at::Tensor& weight,
                                       double eps, bool trains) {
  GatedNormGradients found{at::empty_like(x), at::empty(z.sizes(), z.options()), {}};
  const auto blocks = trains ? std::min<unsigned>(blocks_of_heads(x), kTrainedGateBlocks) : blocks_of_heads(x);
  at::Tensor sums;
  if (trains) sums = at::empty({blocks * (kHeadThreads / 32), kHeadDim}, x.options().dtype(at::kFloat));
  with_device_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    gated_norm_gradient_kernel<T><<<blocks, kHeadThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        gated_norm_arguments<T>(x, z, weight, eps), data<T>(dy), mutable_data<T>(found.x), mutable_data<T>(found.z),
        trains ? mutable_data<float>(sums) : nullptr);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  if (trains) found.weight = sums.sum(0).to(weight.scalar_type());
  return found;
}

bool supports_delta_steps(const at::Tensor& like, const DeltaStepShape& shape) {
  const auto type = like.scalar_type();
  return like.is_cuda() && (type == at::kFloat || type == at::kHalf || type == at::kBFloat16) && shape.key_dim == kHeadDim &&
         shape.value_dim == kHeadDim && shape.conv_kernel == kConvKernel && shape.value_heads / shape.key_heads <= kMostShared;
}

bool supports_delta_step(const DeltaStep& s) {
  const auto& states = s.recurrent_shkv;
  const auto type = s.qkv_bc.scalar_type();
  const DeltaStepShape shape{s.key_heads, states.size(1), states.size(2), states.size(3), s.conv.size(2)};
  auto is_row = [&](const at::Tensor& x) { return x.is_cuda() && x.scalar_type() == type && x.stride(-1) == 1; };
  return supports_delta_steps(s.qkv_bc, shape) && is_row(s.qkv_bc) && is_row(s.b_bh) && is_row(s.a_bh) && has_lanes(s.z_bhv) && is_row(s.z_bhv) && is_number(s.conv, type) &&
         s.conv.scalar_type() == type && is_number(s.dt_bias, type) && is_number(s.a_log, type) &&
         is_number(s.norm, type) && states.is_contiguous() &&
         s.conv_sck.transpose(1, 2).is_contiguous() && s.conv_sck.scalar_type() == type;
}

at::Tensor delta_step(const DeltaStep& s) {
  const int64_t rows = s.qkv_bc.size(0), heads = s.recurrent_shkv.size(1);
  auto y = at::empty({rows, heads * kHeadDim}, s.qkv_bc.options());
  with_device_type(y.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const StepArguments<T> arguments{.qkv = data<T>(s.qkv_bc),
                                     .z = data<T>(s.z_bhv),
                                     .b = data<T>(s.b_bh),
                                     .a = data<T>(s.a_bh),
                                     .qkv_stride = s.qkv_bc.stride(0),
                                     .z_stride = s.z_bhv.stride(0),
                                     .b_stride = s.b_bh.stride(0),
                                     .a_stride = s.a_bh.stride(0),
                                     .conv = data<T>(s.conv),
                                     .dt_bias = numbers<T>(s.dt_bias),
                                     .a_log = numbers<T>(s.a_log),
                                     .norm = numbers<T>(s.norm),
                                     .eps = static_cast<float>(s.eps),
                                     .query_scale = 1.0f / std::sqrt(static_cast<float>(kHeadDim)),
                                     .inputs = mutable_data<T>(s.conv_sck),
                                     .states = mutable_data<float>(s.recurrent_shkv),
                                     .slots = data<int64_t>(s.slots_b),
                                     .y = mutable_data<T>(y),
                                     .key_heads = static_cast<int>(s.key_heads),
                                     .heads = static_cast<int>(heads)};
    launch_dependent(delta_step_kernel<T, kConvKernel>, dim3(static_cast<unsigned>(s.key_heads), static_cast<unsigned>(rows)),
                     kStepThreads, c10::cuda::getCurrentCUDAStream(), arguments);
  });
  return y;
}

}  // namespace hone::ops::cuda
