// A block has all rows of x, up to 64, and 64 of the weight and goes along them, copies of what comes next under way; the
// weight's first ones are asked for before the kernel ahead has ended. Where there are too few such tiles for the device, blocks
// share a tile's length and add their sums up through each other's shared memory.
#include "hone/ops/cuda/batch_linear.h"

#include "hone/ops/cuda/fused.h"
#include "hone/ops/cuda/with_cuda/dependent_launch.cuh"
#include "hone/ops/cuda/with_cuda/tensor_cores.cuh"
#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kThreads = 128, kTile = 64, kStages = 4, kMostSplits = 4;
constexpr int kMostRows = 64;  // more, and tiles of 64 ask the second cache for more than it gives: cuBLAS has wider ones
constexpr int kTileNumbers = kTile * kTile, kSumStride = kTile + 4;
constexpr int64_t kMostWeights = int64_t{1} << 25;  // beyond, cuBLAS fills the device

template <class T>
struct BatchProduct {
  const T *x, *weight, *bias, *norm, *added;  // the last three may be null
  T* y;
  int rows, width, outputs;
  float eps;
};

// Where eight numbers of a tile stand: lines of 128 bytes, turned so that eight rows of one column lie in different banks.
__device__ inline int place_in_tile(int row, int eight) { return row * kTile + (eight ^ (row & 7)) * 8; }

template <class T>
__device__ inline float2 pair_floats(uint32_t pair);
template <>
__device__ inline float2 pair_floats<__nv_bfloat16>(uint32_t pair) {
  return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}
template <>
__device__ inline float2 pair_floats<__half>(uint32_t pair) {
  return __half22float2(*reinterpret_cast<const __half2*>(&pair));
}

template <class T>
__device__ inline float2 load_pair(const T* from) {
  return pair_floats<T>(*reinterpret_cast<const uint32_t*>(from));
}

// What a block of the cluster has at this place of its own shared memory.
__device__ inline float2 load_from_block(const float* place, int block) {
  float2 found = make_float2(0, 0);
#if __CUDA_ARCH__ >= 900
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(place)), "r"(block));
  asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];" : "=f"(found.x), "=f"(found.y) : "r"(there) : "memory");
#endif
  return found;
}
__device__ inline void meet_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

template <class T, bool kNormed, bool kGated, int kSplits>
__global__ void __launch_bounds__(kThreads) batch_kernel(BatchProduct<T> a) {
  static_assert(kSplits == 1 || (!kNormed && !kGated), "a row's norm and a gate are known to the block that has all of them");
  constexpr int kOutputs = kGated ? kTile / 2 : kTile;
  extern __shared__ __align__(128) unsigned char memory[];
  T* const tiles = reinterpret_cast<T*>(memory);       // of each stage x's and the weight's
  T* const norm = tiles + kStages * 2 * kTileNumbers;  // where there is one
  __shared__ float scales[kNormed ? kTile : 1];
  const int first_output = blockIdx.x * kOutputs, depth = a.width / kSplits, begin = blockIdx.z * depth, steps = depth / kTile;
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 64 * 32, warp_column = threadIdx.x / 32 % 2 * 32;

  // Gated, a warp's first sixteen rows of the weight are of the gate, the others of what it gates.
  auto weight_row = [&](int row) {
    return kGated ? first_output + row / 32 * 16 + row % 16 + row % 32 / 16 * a.outputs : first_output + row;
  };
  auto tile_of = [&](int stage, int which) { return tiles + (stage * 2 + which) * kTileNumbers; };
  const int own_row = threadIdx.x / 8, own_eight = threadIdx.x % 8;
  auto copy_weights = [&](int step) {
#pragma unroll
    for (int r = own_row; r < kTile; r += kThreads / 8)
      copy_ahead(tile_of(step % kStages, 1) + place_in_tile(r, own_eight),
                 a.weight + static_cast<int64_t>(weight_row(r)) * a.width + begin + step * kTile + own_eight * 8);
  };
  auto copy_rows = [&](int step) {
#pragma unroll
    for (int r = own_row; r < kTile; r += kThreads / 8) {
      const bool inside = r < a.rows;
      copy_ahead(tile_of(step % kStages, 0) + place_in_tile(r, own_eight),
                 a.x + static_cast<int64_t>(inside ? r : 0) * a.width + begin + step * kTile + own_eight * 8, inside);
    }
  };

  let_next_begin();
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s)
    if (s < steps) copy_weights(s);
  if constexpr (kNormed)
    for (int i = threadIdx.x * 8; i < a.width; i += kThreads * 8) store_pack(norm + i, load_pack(a.norm + i));
  wait_for_previous();
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < steps) copy_rows(s);
    end_copies();
  }

  float sums[2][4][4] = {}, squares[2][2] = {};
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<kStages - 2>();
    __syncthreads();
    if (step + kStages - 1 < steps) copy_weights(step + kStages - 1), copy_rows(step + kStages - 1);
    end_copies();
    const T *rows = tile_of(step % kStages, 0), *weights = tile_of(step % kStages, 1);
#pragma unroll
    for (int k = 0; k < kTile / 16; ++k) {
      uint32_t x[2][4], w[2][4];
#pragma unroll
      for (int m = 0; m < 2; ++m) load_matrices(x[m], rows + place_in_tile(warp_row + m * 16 + lane % 16, k * 2 + lane / 16));
#pragma unroll
      for (int n = 0; n < 2; ++n)
        load_matrices(w[n], weights + place_in_tile(warp_column + n * 16 + lane / 16 * 8 + lane % 8, k * 2 + lane / 8 % 2));
      if constexpr (kNormed) {
        const T* scale = norm + step * kTile + k * 16 + lane % 4 * 2;
        const float2 factors[2] = {load_pair(scale), load_pair(scale + 8)};
#pragma unroll
        for (int m = 0; m < 2; ++m)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float2 values = pair_floats<T>(x[m][i]);
            squares[m][i % 2] += values.x * values.x + values.y * values.y;
            x[m][i] = rounded_pair<T>(values.x * factors[i / 2].x, values.y * factors[i / 2].y);
          }
      }
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int n = 0; n < 4; ++n) mma16(sums[m][n], x[m], w[n / 2][n % 2 * 2], w[n / 2][n % 2 * 2 + 1], T{});
    }
  }

  const int g = lane / 4, t = lane % 4 * 2;
  auto finish = [&](int row, int output, float2 value) {
    if (row >= a.rows) return;
    if (a.bias) {
      const float2 bias = load_pair(a.bias + output);
      value.x += bias.x, value.y += bias.y;
    }
    const int64_t to = static_cast<int64_t>(row) * a.outputs + output;
    if (a.added) {
      const float2 added = load_pair(a.added + to);
      value.x += added.x, value.y += added.y;
    }
    *reinterpret_cast<uint32_t*>(a.y + to) = rounded_pair<T>(value.x, value.y);
  };
  if constexpr (kSplits > 1) {
    wait_for_copies<0>();
    __syncthreads();  // the tiles are read
    float* const own = reinterpret_cast<float*>(memory);
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int h = 0; h < 2; ++h)
          *reinterpret_cast<float2*>(own + (warp_row + m * 16 + h * 8 + g) * kSumStride + warp_column + n * 8 + t) =
              make_float2(sums[m][n][2 * h], sums[m][n][2 * h + 1]);
    meet_cluster();
    constexpr int kRowsOfBlock = kTile / kSplits;
    for (int i = threadIdx.x; i < kRowsOfBlock * kTile / 2; i += kThreads) {
      const int row = blockIdx.z * kRowsOfBlock + i / (kTile / 2), column = i % (kTile / 2) * 2;
      float2 total = make_float2(0, 0);
#pragma unroll
      for (int block = 0; block < kSplits; ++block) {
        const float2 part = load_from_block(own + row * kSumStride + column, block);
        total.x += part.x, total.y += part.y;
      }
      finish(row, first_output + column, total);
    }
    meet_cluster();  // nobody leaves whose sums are still read
  } else {
    if constexpr (kNormed) {
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          float sum = squares[m][h];
          sum += __shfl_xor_sync(0xffffffffu, sum, 1);
          sum += __shfl_xor_sync(0xffffffffu, sum, 2);
          if (lane % 4 == 0 && warp_column == 0)
            scales[warp_row + m * 16 + h * 8 + g] = rsqrtf(sum / static_cast<float>(a.width) + a.eps);
        }
      __syncthreads();
    }
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = warp_row + m * 16 + h * 8 + g;
        const float scale = kNormed ? scales[row] : 1.0f;
        auto value_of = [&](int n) { return make_float2(sums[m][n][2 * h] * scale, sums[m][n][2 * h + 1] * scale); };
        if constexpr (kGated) {
#pragma unroll
          for (int n = 0; n < 2; ++n) {
            const int output = first_output + warp_column / 2 + n * 8 + t;
            float2 gate = value_of(n), up = value_of(n + 2);
            if (a.bias && row < a.rows) {
              const float2 first = load_pair(a.bias + output), second = load_pair(a.bias + a.outputs + output);
              gate.x += first.x, gate.y += first.y, up.x += second.x, up.y += second.y;
            }
            const float2 value = make_float2(gate.x / (1.0f + __expf(-gate.x)) * up.x, gate.y / (1.0f + __expf(-gate.y)) * up.y);
            if (row < a.rows)
              *reinterpret_cast<uint32_t*>(a.y + static_cast<int64_t>(row) * a.outputs + output) =
                  rounded_pair<T>(value.x, value.y);
          }
        } else {
#pragma unroll
          for (int n = 0; n < 4; ++n) finish(row, first_output + warp_column + n * 8 + t, value_of(n));
        }
      }
  }
}

template <class T, bool kNormed, bool kGated, int kSplits>
void launch_batch(const BatchProduct<T>& product) {
  constexpr unsigned kOutputs = kGated ? kTile / 2 : kTile;
  const unsigned shared = static_cast<unsigned>(sizeof(T)) * (kStages * 2 * kTileNumbers + (kNormed ? product.width : 0));
  auto kernel = batch_kernel<T, kNormed, kGated, kSplits>;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)));
  const dim3 grid(static_cast<unsigned>(product.outputs) / kOutputs, 1, kSplits);
  launch_dependent(kernel, LaunchShape{grid, kThreads, shared, kSplits}, c10::cuda::getCurrentCUDAStream(), product);
}

// Two blocks for every multiprocessor of an H200 at most, each with a few steps at least.
int splits_for(int64_t width, int64_t outputs) {
  constexpr int64_t kBlocksWanted = 264, kFewestSteps = 4;
  const int64_t tiles = outputs / kTile;
  int splits = has_dependent_launches() ? kMostSplits : 1;
  while (splits > 1 &&
         (tiles * splits > kBlocksWanted || width % (splits * kTile) != 0 || width / (splits * kTile) < kFewestSteps))
    splits /= 2;
  return splits;
}

}  // namespace

bool serves_batch(const at::Tensor& rows, const at::Tensor& weight) {
  return supports_fused(rows) && rows.dim() == 2 && rows.size(0) <= kMostRows && rows.scalar_type() == weight.scalar_type() &&
         rows.scalar_type() != at::kFloat && weight.size(0) % kTile == 0 && weight.size(1) % kTile == 0 &&
         weight.is_contiguous() && weight.numel() <= kMostWeights;
}

at::Tensor batch_linear(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, const ThinFusion& with) {
  auto x = input.contiguous();
  const int64_t outputs = weight.size(0) / (with.gated ? 2 : 1);
  auto y = at::empty({x.size(0), outputs}, x.options());
  auto run = [&](auto type) {
    using T = decltype(type);
    auto optional = [](const at::Tensor& values) { return values.defined() ? data<T>(values) : nullptr; };
    const BatchProduct<T> product{data<T>(x),
                                  data<T>(weight),
                                  optional(bias),
                                  optional(with.norm),
                                  optional(with.added),
                                  mutable_data<T>(y),
                                  static_cast<int>(x.size(0)),
                                  static_cast<int>(x.size(1)),
                                  static_cast<int>(outputs),
                                  static_cast<float>(with.eps)};
    TORCH_CHECK(!with.gated || !with.added.defined(), "a gated product with something added");
    if (with.norm.defined())
      return with.gated ? launch_batch<T, true, true, 1>(product) : launch_batch<T, true, false, 1>(product);
    if (with.gated) return launch_batch<T, false, true, 1>(product);
    switch (splits_for(x.size(1), outputs)) {
      case 4:
        return launch_batch<T, false, false, 4>(product);
      case 2:
        return launch_batch<T, false, false, 2>(product);
      default:
        return launch_batch<T, false, false, 1>(product);
    }
  };
  x.scalar_type() == at::kHalf ? run(__half{}) : run(__nv_bfloat16{});
  return y;
}

}  // namespace hone::ops::cuda
