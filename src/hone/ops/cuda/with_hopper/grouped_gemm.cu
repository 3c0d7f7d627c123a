#include "hone/ops/cuda/grouped_gemm.h"

#include <array>
#include <limits>
#include <utility>

#include "hone/ops/cuda/with_cuda/vectors.cuh"
#include "hone/ops/cuda/with_hopper/tma.cuh"
#include "hone/ops/cuda/with_hopper/wgmma.cuh"

// libtorch's kernel has tiles of 128 rows: with tokens that choose at random, almost every expert's last one is half empty. Here
// the rows are the narrow side of a warpgroup's product, which can be any multiple of eight: an expert's rows are divided into
// equal tiles of up to 256 rows, rounded up to 16. A cluster of two thread blocks multiplies such a tile by 256 features; each
// loads the weights of its 128 and half of the rows, which both get. One warpgroup loads, two multiply 64 features each.
namespace hone::ops::cuda {
namespace {

constexpr int kStages = 4, kDepth = 64, kFeatures = 128, kMostRows = 256, kRowStep = 16, kRowBox = 32, kMostExperts = 512;
constexpr int kThreads = 3 * 128, kProducerRegisters = 40, kConsumerRegisters = 232;
constexpr int kWeightBytes = kFeatures * kDepth * 2, kRowBytes = kMostRows * kDepth * 2;
constexpr int kOutRows = 32, kOutStride = 64 * 2 + 16;  // of a warpgroup's output, in bytes; eight rows are in different banks

struct Shared {
  struct alignas(1024) Stage {
    unsigned char weights[kWeightBytes], rows[kRowBytes];
  };
  Stage stages[kStages];
  alignas(16) unsigned char out[2][2][kOutRows * kOutStride];  // of the warpgroups that multiply, two each
  uint64_t full[kStages], empty[kStages];
  int row_begins[kMostExperts + 1], tile_begins[kMostExperts + 1];
};
constexpr int kSharedBytes = sizeof(Shared) + alignof(Shared);  // dynamic shared memory may begin anywhere

struct Product {
  const int64_t* counts;
  __nv_bfloat16* out;
  int experts, features, depth;

  __device__ int blocks() const { return (depth + kDepth - 1) / kDepth; }
};

struct Tile {
  int expert, first_row, rows, width, feature;  // width: rows, rounded up

  __device__ int boxes() const { return (width + kRowBox - 1) / kRowBox; }
};

// The tiles of one thread block, in order.
class Tiles {
 public:
  __device__ Tiles(const Shared& shared, int experts)
      : s_(shared), experts_(experts), next_(static_cast<int>(blockIdx.x / 2)), rank_(static_cast<int>(cluster_rank())) {}

  __device__ bool take(Tile& tile) {
    while (expert_ < experts_ && next_ >= s_.tile_begins[expert_ + 1]) ++expert_;
    if (expert_ == experts_) return false;
    const int begin = s_.row_begins[expert_], count = s_.row_begins[expert_ + 1] - begin;
    const int parts = (count + kMostRows - 1) / kMostRows;
    const int width = ((count + parts - 1) / parts + kRowStep - 1) / kRowStep * kRowStep;
    const int at = next_ - s_.tile_begins[expert_], first = at % parts * width;
    tile = {expert_, begin + first, min(width, count - first), width, (at / parts * 2 + rank_) * kFeatures};
    next_ += static_cast<int>(gridDim.x / 2);
    return true;
  }

 private:
  const Shared& s_;
  int experts_, next_, rank_, expert_ = 0;
};

// Where a warp is in the ring of stages.
struct Position {
  int stage = 0;
  uint32_t parity = 0;

  __device__ void advance() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
};

// body(tile, block, position) for every stage that is to be filled, as soon as both thread blocks have read what it holds.
template <class Body>
__device__ void fill_stages(Shared& s, const Product& p, Body body) {
  Tiles tiles(s, p.experts);
  Tile tile;
  Position at;
  while (tiles.take(tile))
    for (int block = 0; block < p.blocks(); ++block, at.advance()) {
      wait_for(&s.empty[at.stage], at.parity ^ 1);
      if (is_elected()) body(tile, block, at.stage);
    }
}

template <bool kColumnMajor>
__device__ void load_weights(Shared& s, const Product& p, const CUtensorMap* weights) {
  fill_stages(s, p, [&](const Tile& tile, int block, int stage) {
    arrive_expecting(&s.full[stage], kWeightBytes);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int feature = tile.feature + half * (kFeatures / 2), k = block * kDepth;
      load_box(s.stages[stage].weights + half * (kWeightBytes / 2), weights, &s.full[stage], kColumnMajor ? feature : k,
               kColumnMajor ? k : feature, tile.expert);
    }
  });
}
__device__ void load_rows(Shared& s, const Product& p, const CUtensorMap* rows) {
  fill_stages(s, p, [&](const Tile& tile, int block, int stage) {
    arrive_expecting(&s.full[stage], tile.boxes() * kRowBox * kDepth * 2);  // also those that the other block loads
    for (int box = static_cast<int>(cluster_rank()); box < tile.boxes(); box += 2)
      load_box_for_both(s.stages[stage].rows + box * kRowBox * kDepth * 2, rows, &s.full[stage], block * kDepth,
                        tile.first_row + box * kRowBox);
  });
}

// A warp has 16 features of every row: they go through shared memory so that the warpgroup writes rows of 128 bytes.
template <int kWidth>
__device__ void store(Shared& s, const Product& p, const Tile& tile, int group, const float (&sums)[kWidth / 2]) {
  const int thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
  const int piece = thread % 8, feature = tile.feature + group * 64 + piece * 8;
#pragma unroll
  for (int first = 0; first < kWidth; first += kOutRows) {
    unsigned char* out = s.out[group][first / kOutRows % 2];  // the other one may still be read
#pragma unroll
    for (int part = first; part < first + kOutRows && part < kWidth; part += 16) {
      uint32_t pairs[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) pairs[i] = rounded_pair<__nv_bfloat16>(sums[part / 2 + 2 * i], sums[part / 2 + 2 * i + 1]);
      const int row = part - first + lane / 16 * 8 + lane % 8, column = warp * 16 + lane / 8 % 2 * 8;
      asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                       shared_address(out + row * kOutStride + column * 2)),
                   "r"(pairs[0]), "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3])
                   : "memory");
    }
    sync_warpgroup(group);
#pragma unroll
    for (int row = thread / 8; row < kOutRows; row += 16)
      if (first + row < tile.rows && feature < p.features) {
        const auto values = load_pack(reinterpret_cast<const __nv_bfloat16*>(out + row * kOutStride + piece * 16));
        store_pack(p.out + static_cast<int64_t>(tile.first_row + first + row) * p.features + feature, values);
      }
  }
  sync_warpgroup(group);
}

template <int kWidth, bool kColumnMajor>
__device__ void multiply(Shared& s, const Product& p, const Tile& tile, Position& at) {
  const int thread = threadIdx.x % 128, group = threadIdx.x / 128 - 1;
  float sums[kWidth / 2] = {};
  int previous = 0;
  auto release = [&] {
    if (thread < 2) arrive_at_rank(&s.empty[previous], static_cast<uint32_t>(thread));
  };
  for (int block = 0; block < p.blocks(); ++block, at.advance()) {
    wait_for(&s.full[at.stage], at.parity);
    const auto& stage = s.stages[at.stage];
    const uint64_t weights = matrix_descriptor(shared_address(stage.weights + group * (kWeightBytes / 2)));
    const uint64_t rows = matrix_descriptor(shared_address(stage.rows));
    fence_wgmma();
#pragma unroll
    for (int k = 0; k < kDepth; k += 16)
      wgmma<kColumnMajor>(sums, weights + (kColumnMajor ? k * kSwizzleBytes : k * 2) / 16, rows + k * 2 / 16);
    commit_wgmma();
    if (block > 0) {
      wait_for_wgmma<1>();
      release();
    }
    previous = at.stage;
  }
  keep(sums);
  wait_for_wgmma<0>();
  keep(sums);
  release();
  store<kWidth>(s, p, tile, group, sums);
}

template <bool kColumnMajor, int... kSteps>
__device__ void multiply_any(Shared& s, const Product& p, const Tile& tile, Position& at, std::integer_sequence<int, kSteps...>) {
  ((tile.width == (kSteps + 1) * kRowStep ? multiply<(kSteps + 1) * kRowStep, kColumnMajor>(s, p, tile, at) : void()), ...);
}

// By one warp: sums of the experts before.
__device__ void find_begins(Shared& s, const Product& p) {
  const int lane = static_cast<int>(threadIdx.x), pairs = (p.features + 2 * kFeatures - 1) / (2 * kFeatures);
  int row_begin = 0, tile_begin = 0;
  for (int first = 0; first < p.experts; first += 32) {
    const int expert = first + lane;
    int rows = expert < p.experts ? static_cast<int>(p.counts[expert]) : 0;
    int tiles = (rows + kMostRows - 1) / kMostRows * pairs;
    for (int offset = 1; offset < 32; offset *= 2) {
      const int rows_before = __shfl_up_sync(0xffffffffu, rows, offset),
                tiles_before = __shfl_up_sync(0xffffffffu, tiles, offset);
      if (lane >= offset) rows += rows_before, tiles += tiles_before;
    }
    if (expert < p.experts) s.row_begins[expert + 1] = row_begin + rows, s.tile_begins[expert + 1] = tile_begin + tiles;
    row_begin += __shfl_sync(0xffffffffu, rows, 31), tile_begin += __shfl_sync(0xffffffffu, tiles, 31);
  }
  if (lane == 0) s.row_begins[0] = s.tile_begins[0] = 0;
}

template <bool kColumnMajor>
__global__ void __cluster_dims__(2) __launch_bounds__(kThreads, 1)
    grouped_gemm_kernel(const __grid_constant__ CUtensorMap rows, const __grid_constant__ CUtensorMap weights, Product p) {
  extern __shared__ unsigned char memory[];
  constexpr uintptr_t kAlign = alignof(Shared);
  Shared& s = *reinterpret_cast<Shared*>((reinterpret_cast<uintptr_t>(memory) + kAlign - 1) / kAlign * kAlign);
  const int warp = threadIdx.x / 32;
  if (warp == 0) find_begins(s, p);
  if (threadIdx.x == 32)
    for (int i = 0; i < kStages; ++i)
      init_barrier(&s.full[i], 2), init_barrier(&s.empty[i], 4);  // warps that load; both blocks' warpgroups that multiply
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
  sync_cluster();
  if (warp < 4) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kProducerRegisters));
    if (warp == 0) load_weights<kColumnMajor>(s, p, &weights);
    if (warp == 1) load_rows(s, p, &rows);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kConsumerRegisters));
    Tiles tiles(s, p.experts);
    Tile tile;
    Position at;
    while (tiles.take(tile)) multiply_any<kColumnMajor>(s, p, tile, at, std::make_integer_sequence<int, kMostRows / kRowStep>{});
  }
  sync_cluster();  // neither block's memory and barriers are gone while the other uses them
}

// Null if the driver is too old.
auto* tensor_map_encoder() {
  static const auto encoder = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
    C10_CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found));
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  return encoder;
}

// Sizes from the innermost dimension; boxes of 64 numbers (128 bytes) by `box_rows`.
template <size_t kDimensions>
CUtensorMap tensor_map(const at::Tensor& x, const std::array<cuuint64_t, kDimensions>& sizes, cuuint32_t box_rows) {
  std::array<cuuint64_t, kDimensions> strides{};  // in bytes; of the first the format knows
  std::array<cuuint32_t, kDimensions> box{}, ones{};
  for (size_t i = 0; i < kDimensions; ++i) {
    strides[i] = (i == 0 ? 2 : strides[i - 1]) * sizes[i];
    box[i] = i == 0 ? kDepth : i == 1 ? box_rows : 1;
    ones[i] = 1;
  }
  CUtensorMap map;
  const auto result =
      tensor_map_encoder()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, kDimensions, const_cast<void*>(x.const_data_ptr()),
                           sizes.data(), strides.data(), box.data(), ones.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                           CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  TORCH_CHECK(result == CUDA_SUCCESS, "cuTensorMapEncodeTiled of ", x.sizes(), " returned ", static_cast<int>(result));
  return map;
}

int attribute(cudaDeviceAttr name, at::Device device) {
  int value = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&value, name, device.index()));
  return value;
}
bool is_hopper(at::Device device) {
  return attribute(cudaDevAttrComputeCapabilityMajor, device) == 9 && attribute(cudaDevAttrComputeCapabilityMinor, device) == 0;
}
bool is_aligned(const at::Tensor& x) { return reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0; }

}  // namespace

bool supports_grouped_gemm(const at::Tensor& rows, const at::Tensor& matrices) {
  const int64_t experts = matrices.size(0), depth = matrices.size(1), features = matrices.size(2);
  return rows.is_cuda() && matrices.device() == rows.device() && rows.scalar_type() == at::kBFloat16 &&
         matrices.scalar_type() == at::kBFloat16 && rows.is_contiguous() && rows.size(0) > 0 &&
         rows.size(0) <= std::numeric_limits<int>::max() - kMostRows && rows.size(1) == depth && experts > 0 &&
         experts <= kMostExperts && depth % 8 == 0 && features % 8 == 0 && depth >= kDepth && features >= kFeatures &&
         (matrices.is_contiguous() || matrices.transpose(1, 2).is_contiguous()) && is_aligned(rows) && is_aligned(matrices) &&
         is_hopper(rows.device()) && tensor_map_encoder();
}

at::Tensor grouped_gemm(const at::Tensor& rows, const at::Tensor& matrices, const at::Tensor& counts_e) {
  const auto experts = static_cast<cuuint64_t>(matrices.size(0)), depth = static_cast<cuuint64_t>(matrices.size(1)),
             features = static_cast<cuuint64_t>(matrices.size(2));
  const auto total = static_cast<cuuint64_t>(rows.size(0));
  const auto counts = counts_e.to(at::kLong).contiguous();
  auto out = at::empty({rows.size(0), matrices.size(2)}, rows.options());
  const bool column_major = matrices.is_contiguous();
  const auto row_map = tensor_map<2>(rows, {depth, total}, kRowBox);
  const auto weight_map =
      tensor_map<3>(matrices, {column_major ? features : depth, column_major ? depth : features, experts}, kFeatures / 2);
  const Product product{counts.const_data_ptr<int64_t>(), mutable_data<__nv_bfloat16>(out), static_cast<int>(experts),
                        static_cast<int>(features), static_cast<int>(depth)};
  const auto kernel = column_major ? grouped_gemm_kernel<true> : grouped_gemm_kernel<false>;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  const int blocks = attribute(cudaDevAttrMultiProcessorCount, rows.device()) / 2 * 2;
  kernel<<<static_cast<unsigned>(blocks), kThreads, kSharedBytes, c10::cuda::getCurrentCUDAStream()>>>(row_map, weight_map,
                                                                                                       product);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

}  // namespace hone::ops::cuda
