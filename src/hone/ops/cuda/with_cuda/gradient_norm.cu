#include "hone/ops/cuda/gradient_norm.h"

#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kSquareThreads = 256, kPacksAtOnce = 4, kRounds = 4, kTotalThreads = 1024;
// Elements of one block.
template <class T>
constexpr int64_t kSquareChunk = int64_t{kSquareThreads} * kPacksAtOnce* kRounds* Pack<T>::kCount;

struct SquaredTensors {
  static constexpr int kMost = 1024;  // a launch may have 32 KB of parameters
  const void* values[kMost];
  int64_t size[kMost];
  int first_block[kMost + 1];
  int count;
};

__device__ inline int tensor_of_block(const SquaredTensors& tensors) {
  int found = 0;
  for (int step = SquaredTensors::kMost / 2; step > 0; step /= 2)
    if (found + step < tensors.count && tensors.first_block[found + step] <= static_cast<int>(blockIdx.x)) found += step;
  return found;
}

// A block's sum of squares.
template <class T>
__global__ void __launch_bounds__(kSquareThreads) squares_kernel(SquaredTensors tensors, float* sums) {
  constexpr int kPack = Pack<T>::kCount;
  const int t = tensor_of_block(tensors);
  const int64_t begin = (blockIdx.x - tensors.first_block[t]) * kSquareChunk<T>,
                count = min(kSquareChunk<T>, tensors.size[t] - begin);
  const T* values = static_cast<const T*>(tensors.values[t]) + begin;
  const int packs = reinterpret_cast<uint64_t>(values) % 16 == 0 ? static_cast<int>(count / kPack) : 0;
  float sum = 0;
  for (int i = threadIdx.x; i < packs; i += kPacksAtOnce * kSquareThreads) {
    uint4 words[kPacksAtOnce];
#pragma unroll
    for (int k = 0; k < kPacksAtOnce; ++k) {
      const int place = i + k * kSquareThreads;
      words[k] = place < packs ? __ldcs(reinterpret_cast<const uint4*>(values) + place) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int k = 0; k < kPacksAtOnce; ++k) {
      const auto floats = floats_of(*reinterpret_cast<const Pack<T>*>(&words[k]));
#pragma unroll
      for (int j = 0; j < kPack; ++j) sum += floats.values[j] * floats.values[j];
    }
  }
  for (int64_t i = int64_t{packs} * kPack + threadIdx.x; i < count; i += kSquareThreads)
    sum += to_float(values[i]) * to_float(values[i]);
  __shared__ float parts[kSquareThreads / 32];
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int i = 1; i < kSquareThreads / 32; ++i) sum += parts[i];
  sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kTotalThreads) root_of_sums_kernel(const float* sums, int count, float* root) {
  __shared__ double parts[kTotalThreads];
  double own = 0;
  for (int i = threadIdx.x; i < count; i += kTotalThreads) own += sums[i];
  parts[threadIdx.x] = own;
  for (int width = kTotalThreads / 2; width > 0; width /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < width) parts[threadIdx.x] += parts[threadIdx.x + width];
  }
  if (threadIdx.x == 0) *root = static_cast<float>(sqrt(parts[0]));
}

bool is_served(at::ScalarType type) { return type == at::kFloat || type == at::kHalf || type == at::kBFloat16; }

int blocks_of(const at::Tensor& x) {
  int64_t blocks = 0;
  with_device_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    blocks = (x.numel() + kSquareChunk<T> - 1) / kSquareChunk<T>;
  });
  return static_cast<int>(blocks);
}

}  // namespace

bool supports_norm_of_all(const TensorList& tensors) {
  return !tensors.empty() && std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& x) {
    return x.is_cuda() && x.layout() == at::kStrided && is_served(x.scalar_type()) && x.device() == tensors.front().device();
  });
}

at::Tensor norm_of_all(const TensorList& tensors) {
  TensorList kept;  // contiguous, alive until the launch
  int blocks = 0;
  for (const auto& tensor : tensors) kept.push_back(tensor.contiguous()), blocks += blocks_of(tensor);
  const auto options = tensors.front().options().dtype(at::kFloat).requires_grad(false);
  auto sums = at::empty({blocks}, options), root = at::empty({}, options);
  auto stream = c10::cuda::getCurrentCUDAStream();
  int written = 0;
  for (auto type : {at::kFloat, at::kHalf, at::kBFloat16})
    with_device_type(type, [&](auto number) {
      using T = decltype(number);
      SquaredTensors table{};
      auto flush = [&] {
        const int count = table.first_block[table.count];
        if (count > 0) {
          squares_kernel<T>
              <<<static_cast<unsigned>(count), kSquareThreads, 0, stream>>>(table, sums.mutable_data_ptr<float>() + written);
          C10_CUDA_KERNEL_LAUNCH_CHECK();
        }
        written += count, table.count = 0;
      };
      for (const auto& tensor : kept) {
        if (tensor.scalar_type() != type || tensor.numel() == 0) continue;
        table.values[table.count] = tensor.const_data_ptr(), table.size[table.count] = tensor.numel();
        table.first_block[table.count + 1] = table.first_block[table.count] + blocks_of(tensor);
        if (++table.count == table.kMost) flush();
      }
      flush();
    });
  root_of_sums_kernel<<<1, kTotalThreads, 0, stream>>>(sums.const_data_ptr<float>(), blocks, root.mutable_data_ptr<float>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return root;
}

}  // namespace hone::ops::cuda
