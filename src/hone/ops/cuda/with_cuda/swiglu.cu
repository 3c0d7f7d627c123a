// silu(gate) * up and its gradients. Low-rank updates of gate, up and dy may be pending: the tensor cores add them when those are
// read.
#include "hone/ops/cuda/training.h"
#include "hone/ops/cuda/with_cuda/low_rank_mma.cuh"
#include "hone/ops/cuda/with_cuda/philox.cuh"
#include "hone/ops/cuda/with_cuda/silu.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kGateThreads = 128, kGateRows = 64;

template <class T>
struct GateRow {
  Pack<T> gate, up, dy;
};

template <class T>
struct SwigluArguments {
  const T *gate, *up, *dy;   // dy: null in the forward pass
  T *dgate, *dup, *product;  // the first two are null in the forward pass, the last if it is not needed
  int64_t gate_stride, up_stride, dy_stride, dgate_stride, dup_stride, product_stride;
  const T *update, *factor;  // of dy
  int64_t update_stride;
  const int64_t* draw;  // null: no dropout on that update
  DropRates rates;
  const T *gate_p, *gate_b, *up_p, *up_b;
  int64_t gate_p_stride, up_p_stride;
  int width, rows, tile;
};

template <class T, bool kBackward>
__device__ inline GateRow<T> load_row(const SwigluArguments<T>& a, int64_t row, int column) {
  GateRow<T> found;
  found.gate = load_pack(a.gate + row * a.gate_stride + column), found.up = load_pack(a.up + row * a.up_stride + column);
  if constexpr (kBackward) found.dy = load_pack(a.dy + row * a.dy_stride + column);
  return found;
}

// Writes the product, if requested, and both gradients in the backward pass.
template <class T, bool kBackward>
__device__ inline void finish_row(const SwigluArguments<T>& a, const GateRow<T>& own, int64_t row, int column) {
  const auto gate = floats_of(own.gate), up = floats_of(own.up);
  const auto silu = silu_of<T>(gate);
  if constexpr (kBackward) {
    const auto found = swiglu_gradients<T>(gate, up, silu, floats_of(own.dy));
    store_pack(a.dgate + row * a.dgate_stride + column, rounded_pack(found.gate));
    store_pack(a.dup + row * a.dup_stride + column, rounded_pack(found.up));
  }
  if (!a.product) return;
  auto product = silu.value;
#pragma unroll
  for (int j = 0; j < Pack<T>::kCount; ++j) product.values[j] *= up.values[j];
  store_pack(a.product + row * a.product_stride + column, rounded_pack(product));
}

// Without updates a block has two rows, or more of them if there are too many for the grid.
template <class T, bool kBackward>
__global__ void __launch_bounds__(kGateThreads) swiglu_rows_kernel(SwigluArguments<T> a) {
  const int column = (blockIdx.x * kGateThreads + threadIdx.x) * Pack<T>::kCount;
  if (column >= a.width) return;
  const int first = blockIdx.y * a.tile, last = min(first + a.tile, a.rows);
  for (int row = first; row < last; row += 2) {
    const bool two = row + 1 < last;
    auto upper = load_row<T, kBackward>(a, row, column);
    GateRow<T> lower;
    if (two) lower = load_row<T, kBackward>(a, row + 1, column);
    finish_row<T, kBackward>(a, upper, row, column);
    if (two) finish_row<T, kBackward>(a, lower, row + 1, column);
  }
}

// x += p times the factor, rounded as if the sum had been stored.
template <class T, int kEights>
__device__ inline void add_to_packs(Pack<T>& upper, Pack<T>& lower, const StripRanks<kEights>& ranks,
                                    const StripFactor<T, kEights>& factor) {
  auto top = floats_of(upper), bottom = floats_of(lower);
  add_update<T, kEights>(top, bottom, ranks, factor);
  upper = rounded_pack(top), lower = rounded_pack(bottom);
}
template <class T, int kEights>
__device__ inline void add_dropped(const SwigluArguments<T>& a, Pack<T>& upper, Pack<T>& lower, const StripRanks<kEights>& ranks,
                                   const StripFactor<T, kEights>& factor, int row, int column) {
  auto top = floats_of(upper), bottom = floats_of(lower);
  PackFloats<T> above{}, below{};
  add_update<T, kEights>(above, below, ranks, factor);
  const uint64_t seed = static_cast<uint64_t>(a.draw[0]), offset = static_cast<uint64_t>(a.draw[1]);
  const int64_t packs = a.width / 8, pack = column / 8;
  const auto of_top = drop_factors<8>(seed, static_cast<uint64_t>(row * packs + pack), offset, a.rates);
  const auto of_bottom = drop_factors<8>(seed, static_cast<uint64_t>((row + 1) * packs + pack), offset, a.rates);
#pragma unroll
  for (int j = 0; j < 8; ++j)
    top.values[j] += above.values[j] * of_top.values[j], bottom.values[j] += below.values[j] * of_bottom.values[j];
  upper = rounded_pack(top), lower = rounded_pack(bottom);
}

// A thread's part of eight rows, prefetched while the previous strip is computed.
template <class T, int kDy, int kGates>
struct GateStrip {
  GateRow<T> upper, lower;
  StripRanks<kDy> ranks;
  StripRanks<kGates> gate_ranks, up_ranks;
};
template <class T, bool kBackward, int kDy, int kGates>
__device__ inline GateStrip<T, kDy, kGates> load_strip(const SwigluArguments<T>& a, int begin, int row, int column, int last) {
  GateStrip<T, kDy, kGates> found;
  if (column < a.width && row < last) found.upper = load_row<T, kBackward>(a, row, column);
  if (column < a.width && row + 1 < last) found.lower = load_row<T, kBackward>(a, row + 1, column);
  if constexpr (kDy > 0) found.ranks = load_ranks<T, kDy>(a.update, a.update_stride, begin, last);
  if constexpr (kGates > 0) {
    found.gate_ranks = load_ranks<T, kGates>(a.gate_p, a.gate_p_stride, begin, last);
    found.up_ranks = load_ranks<T, kGates>(a.up_p, a.up_p_stride, begin, last);
  }
  return found;
}

// With updates a warp processes eight rows of 64 columns at a time. kDy and kGates: rank / 8 of dy's update and of those of gate
// and up.
template <class T, bool kBackward, int kDy, bool kDrops, int kGates>
__global__ void __launch_bounds__(kGateThreads) swiglu_strips_kernel(SwigluArguments<T> a) {
  const int first_column = (blockIdx.x * kGateThreads + threadIdx.x) / 32 * kStripColumns;
  if (first_column >= a.width) return;
  const auto [own_row, own_column] = strip_place();
  const int column = first_column + own_column;
  const bool there = column < a.width;
  const int first = blockIdx.y * a.tile, last = min(first + a.tile, a.rows);
  auto next = load_strip<T, kBackward, kDy, kGates>(a, first, first + own_row, column, last);
  [[maybe_unused]] StripFactor<T, kDy> factor;
  [[maybe_unused]] StripFactor<T, kGates> gate_factor, up_factor;
  if constexpr (kDy > 0) factor = load_factor<T, kDy, true>(a.factor, first_column, a.width);
  if constexpr (kGates > 0) {
    gate_factor = load_factor<T, kGates, false>(a.gate_b, first_column, a.width);
    up_factor = load_factor<T, kGates, false>(a.up_b, first_column, a.width);
  }
  for (int begin = first; begin < last; begin += kStripRows) {
    const int row = begin + own_row;
    auto strip = next;
    if (begin + kStripRows < last)
      next = load_strip<T, kBackward, kDy, kGates>(a, begin + kStripRows, row + kStripRows, column, last);
    auto &upper = strip.upper, &lower = strip.lower;
    if constexpr (kGates > 0) {
      add_to_packs(upper.gate, lower.gate, strip.gate_ranks, gate_factor);
      add_to_packs(upper.up, lower.up, strip.up_ranks, up_factor);
    }
    if constexpr (kDy > 0 && kDrops)
      add_dropped(a, upper.dy, lower.dy, strip.ranks, factor, row, column);
    else if constexpr (kDy > 0)
      add_to_packs(upper.dy, lower.dy, strip.ranks, factor);
    if (there && row < last) finish_row<T, kBackward>(a, upper, row, column);
    if (there && row + 1 < last) finish_row<T, kBackward>(a, lower, row + 1, column);
  }
}

template <class T>
void launch_swiglu(SwigluArguments<T> a, int64_t dy_rank, int64_t gates_rank) {
  const bool plain = dy_rank == 0 && gates_rank == 0;
  const int columns = plain ? kGateThreads * Pack<T>::kCount : 2 * kGateThreads,
            column_blocks = (a.width + columns - 1) / columns;
  const bool back = a.dy != nullptr;
  // Without updates, many blocks of two rows keep more loads in flight than a loop over rows does.
  a.tile = plain ? 2 : tile_for(a.rows, column_blocks, kGateRows, kStripRows);
  constexpr int kMostBlocks = 65535;  // in the grid's second dimension
  while ((a.rows + a.tile - 1) / a.tile > kMostBlocks) a.tile *= 2;
  dim3 grid(static_cast<unsigned>(column_blocks), static_cast<unsigned>((a.rows + a.tile - 1) / a.tile));
  auto launch = [&](auto kernel) {
    kernel<<<grid, kGateThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(a);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  };
  if (plain) return back ? launch(swiglu_rows_kernel<T, true>) : launch(swiglu_rows_kernel<T, false>);
  if constexpr (sizeof(T) == 2) {
    const bool drops = a.draw != nullptr;
    if (gates_rank == 0 && dy_rank == 8)
      return drops ? launch(swiglu_strips_kernel<T, true, 1, true, 0>) : launch(swiglu_strips_kernel<T, true, 1, false, 0>);
    if (gates_rank == 0)
      return drops ? launch(swiglu_strips_kernel<T, true, 2, true, 0>) : launch(swiglu_strips_kernel<T, true, 2, false, 0>);
    if (!back)
      return gates_rank == 8 ? launch(swiglu_strips_kernel<T, false, 0, false, 1>)
                             : launch(swiglu_strips_kernel<T, false, 0, false, 2>);
    if (dy_rank == 0)
      return gates_rank == 8 ? launch(swiglu_strips_kernel<T, true, 0, false, 1>)
                             : launch(swiglu_strips_kernel<T, true, 0, false, 2>);
    if (dy_rank == 8)
      return drops ? launch(swiglu_strips_kernel<T, true, 1, true, 1>) : launch(swiglu_strips_kernel<T, true, 1, false, 1>);
    return drops ? launch(swiglu_strips_kernel<T, true, 2, true, 2>) : launch(swiglu_strips_kernel<T, true, 2, false, 2>);
  }
}

template <class T>
void set_gates(SwigluArguments<T>& a, const GateUpdates& updates) {
  if (!updates.defined()) return;
  a.gate_p = data<T>(updates.gate_p), a.gate_b = data<T>(updates.gate_b), a.gate_p_stride = updates.gate_p.stride(0);
  a.up_p = data<T>(updates.up_p), a.up_b = data<T>(updates.up_b), a.up_p_stride = updates.up_p.stride(0);
}

int64_t rank_of(const at::Tensor& p) { return p.defined() ? p.size(1) : 0; }

}  // namespace

bool supports_swiglu_update(const at::Tensor& dy, int64_t rank) {
  return supports_low_rank_add(dy, rank) && rank <= 16 && dy.is_contiguous();
}

bool supports_gate_updates(const at::Tensor& gate, const at::Tensor& up, int64_t rank) {
  return supports_low_rank_add(gate, rank) && supports_low_rank_add(up, rank) && rank <= 16;
}

at::Tensor swiglu_with_updates(const at::Tensor& gate, const at::Tensor& up, const GateUpdates& updates) {
  auto y = at::empty(gate.sizes(), gate.options());
  with_device_type(gate.scalar_type(), [&](auto type) {
    using T = decltype(type);
    SwigluArguments<T> a{};
    a.gate = data<T>(gate), a.up = data<T>(up), a.product = mutable_data<T>(y);
    a.gate_stride = gate.stride(0), a.up_stride = up.stride(0), a.product_stride = y.stride(0);
    a.width = static_cast<int>(gate.size(1)), a.rows = static_cast<int>(gate.size(0));
    set_gates(a, updates);
    launch_swiglu(a, 0, rank_of(updates.gate_p));
  });
  return y;
}

void swiglu_backward(const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up, const at::Tensor& dgate,
                     const at::Tensor& dup, const at::Tensor& product, const LowRankUpdate& update, const GateUpdates& updates) {
  const int64_t rank = rank_of(update.p), gates_rank = rank_of(updates.gate_p);
  TORCH_CHECK(rank == 0 || (supports_swiglu_update(dy, rank) && update.factor.is_contiguous() && update.p.stride(1) == 1),
              "an update of 8 or 16 ranks");
  TORCH_CHECK(rank == 0 || gates_rank == 0 || rank == gates_rank, "updates of as many ranks");
  with_device_type(gate.scalar_type(), [&](auto type) {
    using T = decltype(type);
    SwigluArguments<T> a{};
    a.gate = data<T>(gate), a.up = data<T>(up), a.dy = data<T>(dy), a.dgate = mutable_data<T>(dgate),
    a.dup = mutable_data<T>(dup);
    a.gate_stride = gate.stride(0), a.up_stride = up.stride(0), a.dy_stride = dy.stride(0), a.dgate_stride = dgate.stride(0),
    a.dup_stride = dup.stride(0);
    if (product.defined()) a.product = mutable_data<T>(product), a.product_stride = product.stride(0);
    if (rank > 0) a.update = data<T>(update.p), a.factor = data<T>(update.factor), a.update_stride = update.p.stride(0);
    if (update.draw.defined()) a.draw = update.draw.template const_data_ptr<int64_t>(), a.rates = rates_of(update.dropout);
    a.width = static_cast<int>(gate.size(1)), a.rows = static_cast<int>(gate.size(0));
    set_gates(a, updates);
    launch_swiglu(a, rank, gates_rank);
  });
}

}  // namespace hone::ops::cuda
