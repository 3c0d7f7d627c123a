#include "hone/ops/cuda/grouped_gemm.h"

#include <array>
#include <limits>
#include <utility>

#include "hone/ops/cuda/with_cuda/vectors.cuh"
#include "hone/ops/cuda/with_hopper/tile_queue.cuh"
#include "hone/ops/cuda/with_hopper/tma.cuh"
#include "hone/ops/cuda/with_hopper/wgmma.cuh"

// libtorch's kernel has tiles of 128 rows: with tokens that choose at random, almost every expert's last one is half empty. Here
// the rows are the narrow side of a warpgroup's product, which can be any multiple of eight: an expert's rows are divided into
// equal tiles of up to 256 rows. A cluster of two thread blocks multiplies such a tile by 256 features; each loads the weights of
// its 128 and half of the rows, which both get. Two warpgroups multiply 64 features each. In the third one a warp loads weights,
// another one rows, and one takes tiles from a common counter: tiles differ in size, and clusters do not wait for the slowest.
namespace hone::ops::cuda {
namespace {

constexpr int kDepth = 64, kFeatures = 128, kRowBox = 32, kMostExperts = 512;
constexpr int kThreads = 3 * 128, kProducerRegisters = 40, kConsumerRegisters = 232;
constexpr int kWeightBytes = kFeatures * kDepth * 2;
constexpr int kReaders = 2 + 2 * 4;  // of the queue: warps that load, warps that multiply
// Few rows per expert: the weights are read at the speed of memory if more of them are on their way.
constexpr int kNarrowRows = 128, kWideRows = 256;

template <int kMostRows>
struct Shared {
  static constexpr int kStages = kMostRows == kWideRows ? 3 : 6;

  struct alignas(1024) Stage {
    unsigned char weights[kWeightBytes], rows[kMostRows * kDepth * 2];
  };
  Stage stages[kStages];
  alignas(1024) unsigned char out[2][kMostRows * kSwizzleBytes];  // of the warpgroups that multiply
  uint64_t full[kStages], empty[kStages];
  TileQueue queue;
};
template <int kMostRows>
constexpr int kSharedBytes = sizeof(Shared<kMostRows>) + alignof(Shared<kMostRows>);  // dynamic shared memory may begin anywhere

struct Product {
  Tiling tiling;
  __nv_bfloat16* out;
  int* taken;  // see TileQueue::fill
  int depth;

  __device__ int blocks() const { return (depth + kDepth - 1) / kDepth; }
};

__device__ int boxes_of(const Tile& tile) { return (tile.width() + kRowBox - 1) / kRowBox; }
__device__ int first_feature(const Tile& tile) { return tile.feature + static_cast<int>(cluster_rank()) * kFeatures; }

// Where a warp is in the ring of stages.
template <int kStages>
struct Position {
  int stage = 0;
  uint32_t parity = 0;

  __device__ void advance() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
};

// body(tile, block, position) for every stage that is to be filled, as soon as both thread blocks have read its contents.
template <class S, class Body>
__device__ void fill_stages(S& s, const Product& p, Body body) {
  TileReader tiles(s.queue);
  Tile tile;
  Position<S::kStages> at;
  while (tiles.take(tile))
    for (int block = 0; block < p.blocks(); ++block, at.advance()) {
      wait_for(&s.empty[at.stage], at.parity ^ 1);
      if (is_elected()) body(tile, block, at.stage);
    }
}

template <bool kColumnMajor, class S>
__device__ void load_weights(S& s, const Product& p, const CUtensorMap* weights) {
  fill_stages(s, p, [&](const Tile& tile, int block, int stage) {
    arrive_expecting(&s.full[stage], kWeightBytes);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int feature = first_feature(tile) + half * (kFeatures / 2), k = block * kDepth;
      load_box(s.stages[stage].weights + half * (kWeightBytes / 2), weights, &s.full[stage], kColumnMajor ? feature : k,
               kColumnMajor ? k : feature, tile.expert);
    }
  });
}
template <class S>
__device__ void load_rows(S& s, const Product& p, const CUtensorMap* rows) {
  fill_stages(s, p, [&](const Tile& tile, int block, int stage) {
    arrive_expecting(&s.full[stage], boxes_of(tile) * kRowBox * kDepth * 2);  // also those that the other block loads
    for (int box = static_cast<int>(cluster_rank()); box < boxes_of(tile); box += 2)
      load_box_for_both(s.stages[stage].rows + box * kRowBox * kDepth * 2, rows, &s.full[stage], block * kDepth,
                        tile.first_row + box * kRowBox);
  });
}

// A warp has 16 features of every row: they go through shared memory, from where boxes of 32 rows are copied while the next tile
// is multiplied. The rows of the last, incomplete box are stored by the threads: the next rows are another expert's.
template <int kWidth, class S>
__device__ void store(S& s, const Product& p, const CUtensorMap* map, const Tile& tile, int group,
                      const float (&sums)[kWidth / 2]) {
  const int thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
  const int feature = first_feature(tile) + group * 64;
  unsigned char* out = s.out[group];
  if (thread == 0) wait_for_stores<0>();  // of the tile before
  sync_warpgroup(group);
#pragma unroll
  for (int first = 0; first < kWidth; first += 16) {
    uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = rounded_pair<__nv_bfloat16>(sums[first / 2 + 2 * i], sums[first / 2 + 2 * i + 1]);
    const int row = first + lane / 16 * 8 + lane % 8, piece = (warp * 2 + lane / 8 % 2) ^ (row % 8);
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     shared_address(out + row * kSwizzleBytes + piece * 16)),
                 "r"(pairs[0]), "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3])
                 : "memory");
  }
  publish_to_copies();
  sync_warpgroup(group);
  const int whole = tile.rows / kRowBox * kRowBox;
  if (thread == 0 && feature < p.tiling.features)
    for (int row = 0; row < whole; row += kRowBox) store_box(out + row * kSwizzleBytes, map, feature, tile.first_row + row);
  if (thread == 0) commit_stores();
  const int piece = thread % 8;
  for (int row = whole + thread / 8; row < tile.rows; row += 16)
    if (feature + piece * 8 < p.tiling.features) {
      const auto values = load_pack(reinterpret_cast<const __nv_bfloat16*>(out + row * kSwizzleBytes + (piece ^ (row % 8)) * 16));
      store_pack(p.out + static_cast<int64_t>(tile.first_row + row) * p.tiling.features + feature + piece * 8, values);
    }
}

template <int kWidth, bool kColumnMajor, class S>
__device__ void multiply(S& s, const Product& p, const CUtensorMap* out, const Tile& tile, Position<S::kStages>& at) {
  const int thread = threadIdx.x % 128, group = threadIdx.x / 128 - 1;
  float sums[kWidth / 2] = {};
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
    wait_for_wgmma<0>();  // meanwhile the other warpgroup's products keep the tensor cores busy
    if (thread < 2) arrive_at_rank(&s.empty[at.stage], static_cast<uint32_t>(thread));
  }
  keep(sums);
  store<kWidth>(s, p, out, tile, group, sums);
}

template <bool kColumnMajor, class S, int... kSteps>
__device__ void multiply_any(S& s, const Product& p, const CUtensorMap* out, const Tile& tile, Position<S::kStages>& at,
                             std::integer_sequence<int, kSteps...>) {
  ((tile.width() == (kSteps + 1) * kRowStep ? multiply<(kSteps + 1) * kRowStep, kColumnMajor>(s, p, out, tile, at) : void()),
   ...);
}

template <bool kColumnMajor, int kMostRows>
__global__ void __cluster_dims__(2) __launch_bounds__(kThreads, 1)
    grouped_gemm_kernel(const __grid_constant__ CUtensorMap rows, const __grid_constant__ CUtensorMap weights,
                        const __grid_constant__ CUtensorMap out, Product p) {
  extern __shared__ unsigned char memory[];
  using S = Shared<kMostRows>;
  constexpr uintptr_t kAlign = alignof(S);
  S& s = *reinterpret_cast<S*>((reinterpret_cast<uintptr_t>(memory) + kAlign - 1) / kAlign * kAlign);
  const int warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    s.queue.init(kReaders);
    for (int i = 0; i < S::kStages; ++i)
      init_barrier(&s.full[i], 2), init_barrier(&s.empty[i], 4);  // warps that load; both blocks' warpgroups that multiply
  }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
  sync_cluster();
  if (warp < 4) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kProducerRegisters));
    if (warp == 0) load_weights<kColumnMajor>(s, p, &weights);
    if (warp == 1) load_rows(s, p, &rows);
    if (warp == 2 && cluster_rank() == 0) s.queue.fill(p.tiling, p.taken);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kConsumerRegisters));
    TileReader tiles(s.queue);
    Tile tile;
    Position<S::kStages> at;
    while (tiles.take(tile))
      multiply_any<kColumnMajor>(s, p, &out, tile, at, std::make_integer_sequence<int, kMostRows / kRowStep>{});
    wait_for_stores<0>();
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
         rows.size(0) <= std::numeric_limits<int>::max() - kWideRows && rows.size(1) == depth && experts > 0 &&
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
  const auto row_map = tensor_map<2>(rows, {depth, total}, kRowBox), out_map = tensor_map<2>(out, {features, total}, kRowBox);
  const auto weight_map =
      tensor_map<3>(matrices, {column_major ? features : depth, column_major ? depth : features, experts}, kFeatures / 2);
  const auto stream = c10::cuda::getCurrentCUDAStream();
  auto launch = [&](auto kernel, int most_rows, int shared_bytes, int* taken) {
    const Tiling tiling{counts.const_data_ptr<int64_t>(), static_cast<int>(experts), static_cast<int>(features), most_rows,
                        2 * kFeatures};
    const Product product{tiling, mutable_data<__nv_bfloat16>(out), taken, static_cast<int>(depth)};
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
    const int blocks = attribute(cudaDevAttrMultiProcessorCount, rows.device()) / 2 * 2;
    kernel<<<static_cast<unsigned>(blocks), kThreads, static_cast<size_t>(shared_bytes), stream>>>(row_map, weight_map, out_map,
                                                                                                   product);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  };
  if (total * 2 <= experts * kNarrowRows) {
    launch(column_major ? grouped_gemm_kernel<true, kNarrowRows> : grouped_gemm_kernel<false, kNarrowRows>, kNarrowRows,
           kSharedBytes<kNarrowRows>, nullptr);
    return out;
  }
  auto taken = at::empty({1}, rows.options().dtype(at::kInt));
  C10_CUDA_CHECK(cudaMemsetAsync(taken.mutable_data_ptr(), 0, taken.nbytes(), stream));
  launch(column_major ? grouped_gemm_kernel<true, kWideRows> : grouped_gemm_kernel<false, kWideRows>, kWideRows,
         kSharedBytes<kWideRows>, taken.mutable_data_ptr<int>());
  return out;
}

}  // namespace hone::ops::cuda
