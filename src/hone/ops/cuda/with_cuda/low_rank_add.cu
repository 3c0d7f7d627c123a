// y += p times a low-rank factor, on the tensor cores: bound by reading and writing y. With dropout the product's elements are
// dropped before the addition, each term by its own draw.
#include "hone/ops/cuda/training.h"
#include "hone/ops/cuda/with_cuda/low_rank_mma.cuh"
#include "hone/ops/cuda/with_cuda/philox.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kAddThreads = 128, kMostAddedRows = 64, kStripsAtOnce = 4, kMostEights = 4, kMostTerms = 3;

struct AddShape {
  int width, rows, tile;  // all rows of y, and the rows per block
  int64_t y_stride, p_stride;
};

// A thread's packs of y in several strips; all loads are issued before the first is used.
template <class T>
struct StripPacks {
  Pack<T> top[kStripsAtOnce], bottom[kStripsAtOnce];
};
template <class T>
__device__ inline StripPacks<T> load_strips(const T* place, int begin, int rows, int64_t stride) {
  StripPacks<T> found;
#pragma unroll
  for (int k = 0; k < kStripsAtOnce; ++k) {
    const int row = begin + k * kStripRows;
    if (row < rows) found.top[k] = load_pack(place + row * stride);
    if (row + 1 < rows) found.bottom[k] = load_pack(place + (row + 1) * stride);
  }
  return found;
}

template <class T, int kEights, bool kAcross>
__global__ void __launch_bounds__(kAddThreads) low_rank_add_kernel(T* y, const T* p, const T* factor, AddShape shape) {
  const int first_column = (blockIdx.x * kAddThreads + threadIdx.x) / 32 * kStripColumns;
  if (first_column >= shape.width) return;
  const auto factors = load_factor<T, kEights, kAcross>(factor, first_column, shape.width);
  const auto [own_row, own_column] = strip_place();
  const bool there = first_column + own_column < shape.width;
  T* place = y + first_column + own_column;
  const int first = blockIdx.y * shape.tile, last = min(first + shape.tile, shape.rows);
  for (int begin = first; begin < last; begin += kStripsAtOnce * kStripRows) {
    auto packs = load_strips(place, begin + own_row, there ? last : 0, shape.y_stride);
#pragma unroll
    for (int k = 0; k < kStripsAtOnce; ++k) {
      const int row = begin + k * kStripRows + own_row;
      if (row - own_row >= last) break;
      const auto ranks = load_ranks<T, kEights>(p, shape.p_stride, row - own_row, last);
      auto upper = floats_of(packs.top[k]), lower = floats_of(packs.bottom[k]);
      add_update<T, kEights>(upper, lower, ranks, factors);
      if (there && row < last) store_pack(place + row * shape.y_stride, rounded_pack(upper));
      if (there && row + 1 < last) store_pack(place + (row + 1) * shape.y_stride, rounded_pack(lower));
    }
  }
}

struct Draws {
  const int64_t* of[kMostTerms];
};

// Adds up to three products p_i A_i, whose p and A are concatenated, each dropped by its own draw.
template <class T, int kEights, int kTerms>
__global__ void __launch_bounds__(kAddThreads)
    dropped_add_kernel(T* y, const T* p, const T* factor, AddShape shape, Draws draws, DropRates rates) {
  const int first_column = (blockIdx.x * kAddThreads + threadIdx.x) / 32 * kStripColumns;
  if (first_column >= shape.width) return;
  StripFactor<T, kEights> factors[kTerms];
  uint64_t seeds[kTerms], offsets[kTerms];
#pragma unroll
  for (int i = 0; i < kTerms; ++i) {
    factors[i] =
        load_factor<T, kEights, true>(factor + static_cast<int64_t>(i) * 8 * kEights * shape.width, first_column, shape.width);
    seeds[i] = static_cast<uint64_t>(draws.of[i][0]), offsets[i] = static_cast<uint64_t>(draws.of[i][1]);
  }
  const auto [own_row, own_column] = strip_place();
  const bool there = first_column + own_column < shape.width;
  T* place = y + first_column + own_column;
  const int64_t packs_in_row = shape.width / 8, own_pack = (first_column + own_column) / 8;
  const int first = blockIdx.y * shape.tile, last = min(first + shape.tile, shape.rows);
  for (int begin = first; begin < last; begin += kStripsAtOnce * kStripRows) {
    auto packs = load_strips(place, begin + own_row, there ? last : 0, shape.y_stride);
#pragma unroll
    for (int k = 0; k < kStripsAtOnce; ++k) {
      const int row = begin + k * kStripRows + own_row;
      if (row - own_row >= last) break;
      auto upper = floats_of(packs.top[k]), lower = floats_of(packs.bottom[k]);
#pragma unroll
      for (int i = 0; i < kTerms; ++i) {
        const auto ranks = load_ranks<T, kEights>(p + i * 8 * kEights, shape.p_stride, row - own_row, last);
        PackFloats<T> above{}, below{};
        add_update<T, kEights>(above, below, ranks, factors[i]);
        const auto of_top = drop_factors<8>(seeds[i], static_cast<uint64_t>(row * packs_in_row + own_pack), offsets[i], rates);
        const auto of_bottom =
            drop_factors<8>(seeds[i], static_cast<uint64_t>((row + 1) * packs_in_row + own_pack), offsets[i], rates);
#pragma unroll
        for (int j = 0; j < 8; ++j)
          upper.values[j] += above.values[j] * of_top.values[j], lower.values[j] += below.values[j] * of_bottom.values[j];
      }
      if (there && row < last) store_pack(place + row * shape.y_stride, rounded_pack(upper));
      if (there && row + 1 < last) store_pack(place + (row + 1) * shape.y_stride, rounded_pack(lower));
    }
  }
}

AddShape shape_of(const at::Tensor& y, const at::Tensor& p, dim3& grid) {
  const int width = static_cast<int>(y.size(1)), rows = static_cast<int>(y.size(0)),
            column_blocks = (width + 2 * kAddThreads - 1) / (2 * kAddThreads);
  AddShape shape{width, rows, tile_for(rows, column_blocks, kMostAddedRows, kStripRows), y.stride(0), p.stride(0)};
  grid = dim3(static_cast<unsigned>(column_blocks), static_cast<unsigned>((rows + shape.tile - 1) / shape.tile));
  return shape;
}

template <class T>
void launch_add(const at::Tensor& y, const at::Tensor& p, const at::Tensor& factor, bool across) {
  dim3 grid;
  const auto shape = shape_of(y, p, grid);
  auto launch = [&](auto kernel) {
    kernel<<<grid, kAddThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(mutable_data<T>(y), data<T>(p), data<T>(factor), shape);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  };
  switch (p.size(1) / 8) {
    case 1:
      return across ? launch(low_rank_add_kernel<T, 1, true>) : launch(low_rank_add_kernel<T, 1, false>);
    case 2:
      return across ? launch(low_rank_add_kernel<T, 2, true>) : launch(low_rank_add_kernel<T, 2, false>);
    case 3:
      return across ? launch(low_rank_add_kernel<T, 3, true>) : launch(low_rank_add_kernel<T, 3, false>);
    default:
      return across ? launch(low_rank_add_kernel<T, 4, true>) : launch(low_rank_add_kernel<T, 4, false>);
  }
}

template <class T, int kEights>
void launch_dropped(const at::Tensor& y, const at::Tensor& p, const at::Tensor& factor, double dropout, const TensorList& draws) {
  dim3 grid;
  const auto shape = shape_of(y, p, grid);
  Draws given{};
  for (size_t i = 0; i < draws.size(); ++i) given.of[i] = draws[i].const_data_ptr<int64_t>();
  auto launch = [&](auto kernel) {
    kernel<<<grid, kAddThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(mutable_data<T>(y), data<T>(p), data<T>(factor), shape,
                                                                        given, rates_of(dropout));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  };
  if (draws.size() == 1) return launch(dropped_add_kernel<T, kEights, 1>);
  if (draws.size() == 2) return launch(dropped_add_kernel<T, kEights, 2>);
  launch(dropped_add_kernel<T, kEights, 3>);
}

}  // namespace

bool supports_low_rank_add(const at::Tensor& y, int64_t rank) {
  return supports_rows(y) && y.element_size() == 2 && rank > 0 && rank % 8 == 0 && rank <= 8 * kMostEights;
}

void low_rank_add_(const at::Tensor& y, const at::Tensor& p, const at::Tensor& factor, bool across) {
  TORCH_CHECK(factor.is_contiguous() && p.stride(1) == 1, "factors lie row by row");
  y.scalar_type() == at::kHalf ? launch_add<__half>(y, p, factor, across) : launch_add<__nv_bfloat16>(y, p, factor, across);
}

bool supports_dropped_add(const at::Tensor& y, int64_t rank, int64_t terms) {
  return supports_low_rank_add(y, rank) && rank <= 16 && terms <= kMostTerms && y.is_contiguous();
}

void add_dropped_updates_(const at::Tensor& y, const at::Tensor& p, const at::Tensor& factor, double dropout,
                          const TensorList& draws) {
  const int64_t rank = p.size(1) / static_cast<int64_t>(draws.size());
  TORCH_CHECK(factor.is_contiguous() && p.stride(1) == 1 && supports_dropped_add(y, rank, static_cast<int64_t>(draws.size())),
              "one to three terms of 8 or 16 ranks");
  const bool narrow = rank == 8;
  if (y.scalar_type() == at::kHalf)
    narrow ? launch_dropped<__half, 1>(y, p, factor, dropout, draws) : launch_dropped<__half, 2>(y, p, factor, dropout, draws);
  else
    narrow ? launch_dropped<__nv_bfloat16, 1>(y, p, factor, dropout, draws)
           : launch_dropped<__nv_bfloat16, 2>(y, p, factor, dropout, draws);
}

}  // namespace hone::ops::cuda
