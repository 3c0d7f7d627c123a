#include "hone/ops/cpu/gemm/amx_gemm.h"

#include <algorithm>
#include <cstring>

#include "hone/base/error.h"
#include "hone/device/cpu_features.h"
#include "hone/ops/cpu/gemm/amx_tiles.h"

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace hone::ops::cpu {

void pack_for_amx(const c10::BFloat16* x, c10::BFloat16* packed, int64_t rows, int64_t width) {
  for (int64_t first = 0; first < rows; first += kAmxRows) {
    const int64_t count = std::min(kAmxRows, rows - first);
    for (int64_t i = 0; i < width; i += 2)
      for (int64_t m = 0; m < count; ++m, packed += 2) std::memcpy(packed, x + (first + m) * width + i, 2 * sizeof *packed);
  }
}

#if defined(__x86_64__)

namespace {

// Outputs are processed 32 at a time: two weight tiles (4, 5) times one or two of x (6, 7) give up to four of sums (0 to 3).
constexpr int64_t kAmxOutputs = 16, kBlockOutputs = 2 * kAmxOutputs;

struct AmxBlock {
  int64_t upper, lower;  // outputs of the two weight tiles; lower may be 0
  int64_t left, right;   // rows of the two tiles of x; right may be 0
};

HONE_AMX void set_up(const AmxBlock& block) {
  TileSetup setup;
  const int64_t outputs[] = {block.upper, block.lower}, rows[] = {block.left, block.right};
  for (int o = 0; o < 2; ++o) {
    for (int r = 0; r < 2; ++r)
      if (outputs[o] && rows[r]) setup.set(o * 2 + r, outputs[o], rows[r] * 4);
    if (outputs[o]) setup.set(4 + o, outputs[o], kAmxInputs * 2);
    if (rows[o]) setup.set(6 + o, kAmxInputs / 2, rows[o] * 4);
  }
  set_up_tiles(setup);
}

// Weight rows are short and far apart: later data, finally those of the next block, are prefetched on the way.
template <bool Lower, bool Right>
HONE_AMX void multiply_block(const c10::BFloat16* packed, const c10::BFloat16* weight, int64_t width, const AmxBlock& block) {
  constexpr int64_t kAhead = 4 * kAmxInputs, kToNextBlock = kBlockOutputs - 1;
  const auto stride = width * 2;
  const auto* beyond = packed + block.left * width;
  clear_tile<0>();
  if constexpr (Right) clear_tile<1>();
  if constexpr (Lower) clear_tile<2>();
  if constexpr (Lower && Right) clear_tile<3>();
  for (int64_t i = 0; i < width; i += kAmxInputs) {
    const auto* later = weight + i + kAhead + (i + kAhead < width ? 0 : kToNextBlock * width);
    for (int64_t n = 0; n < kBlockOutputs; ++n) __builtin_prefetch(later + n * width);
    load_tile<6>(packed + i * block.left, block.left * 4);
    load_tile<4>(weight + i, stride);
    multiply_tiles<0, 4, 6>();
    if constexpr (Right) {
      load_tile<7>(beyond + i * block.right, block.right * 4);
      multiply_tiles<1, 4, 7>();
    }
    if constexpr (Lower) {
      load_tile<5>(weight + kAmxOutputs * width + i, stride);
      multiply_tiles<2, 5, 6>();
    }
    if constexpr (Lower && Right) multiply_tiles<3, 5, 7>();
  }
}

// A tile stores sums by outputs; y is stored by rows.
void put_tile(const float* sums, int64_t outputs, int64_t rows, float* y, int64_t y_stride) {
  for (int64_t m = 0; m < rows; ++m)
    for (int64_t n = 0; n < outputs; ++n) y[m * y_stride + n] = sums[n * rows + m];
}

template <bool Lower, bool Right>
HONE_AMX void block_outputs(const c10::BFloat16* packed, const c10::BFloat16* weight, float* y, const SkinnyShape& shape,
                            const AmxBlock& block) {
  alignas(64) float sums[kAmxOutputs * kAmxRows];
  multiply_block<Lower, Right>(packed, weight, shape.width, block);
  store_tile<0>(sums, block.left * 4);
  put_tile(sums, block.upper, block.left, y, shape.y_stride);
  if constexpr (Right) {
    store_tile<1>(sums, block.right * 4);
    put_tile(sums, block.upper, block.right, y + block.left * shape.y_stride, shape.y_stride);
  }
  if constexpr (Lower) {
    store_tile<2>(sums, block.left * 4);
    put_tile(sums, block.lower, block.left, y + kAmxOutputs, shape.y_stride);
  }
  if constexpr (Lower && Right) {
    store_tile<3>(sums, block.right * 4);
    put_tile(sums, block.lower, block.right, y + block.left * shape.y_stride + kAmxOutputs, shape.y_stride);
  }
}

}  // namespace

bool has_amx() {
  constexpr long kAskForState = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool granted = device::cpu_features().amx_bf16 && ::syscall(SYS_arch_prctl, kAskForState, kTileData) == 0;
  return granted;
}

HONE_AMX void amx_outputs(const c10::BFloat16* packed, const c10::BFloat16* weight, float* y, const SkinnyShape& shape) {
  const int64_t left = std::min(kAmxRows, shape.rows), right = shape.rows - left;
  AmxBlock before{0, 0, left, right};
  for (int64_t n = 0; n < shape.count; n += kBlockOutputs) {
    const int64_t upper = std::min(kAmxOutputs, shape.count - n), lower = std::min(kAmxOutputs, shape.count - n - upper);
    const AmxBlock block{upper, lower, left, right};
    if (block.upper != before.upper || block.lower != before.lower) set_up(block);
    before = block;
    const auto* rows = weight + n * shape.width;
    if (lower && right)
      block_outputs<true, true>(packed, rows, y + n, shape, block);
    else if (lower)
      block_outputs<true, false>(packed, rows, y + n, shape, block);
    else if (right)
      block_outputs<false, true>(packed, rows, y + n, shape, block);
    else
      block_outputs<false, false>(packed, rows, y + n, shape, block);
  }
  release_tiles();
}

#else

bool has_amx() { return false; }

void amx_outputs(const c10::BFloat16*, const c10::BFloat16*, float*, const SkinnyShape&) {
  fail_check("a processor with a matrix unit", __FILE__, __LINE__, "");
}

#endif

}  // namespace hone::ops::cpu
