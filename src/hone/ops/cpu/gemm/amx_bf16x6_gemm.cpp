#include "hone/ops/cpu/gemm/amx_bf16x6_gemm.h"

#include <algorithm>

#include "hone/base/error.h"
#include "hone/ops/cpu/gemm/bf16x3_split.h"

namespace hone::ops::cpu {

int64_t split_size(int64_t rows, int64_t width) { return row_blocks_of(rows) * kAmxRows * width * kSplitTerms; }
void pack_bf16x3(const float* x, c10::BFloat16* parts, int64_t rows, int64_t width) {
  pack_bf16x3(x, parts, rows, width, row_blocks_of(rows));
}

#if defined(__x86_64__)

namespace {

HONE_AMX_INLINE void store_columns(__m512i (&lines)[kTile], c10::BFloat16* to) {
  transpose_tile(lines);
#pragma GCC unroll 16
  for (int i = 0; i < kTile; ++i) _mm512_storeu_si512(to + i * kAmxInputs, lines[i]);
}

HONE_AMX void pack_block(const float* x, c10::BFloat16* to, int64_t rows, int64_t width) {
  __m512i high[kTile] = {}, middle[kTile] = {}, low[kTile] = {};
  for (int64_t m = 0; m < rows; ++m) {
    const auto parts = rounding_split(x + m * width);
    high[m] = parts.high, middle[m] = parts.middle, low[m] = parts.low;
  }
  store_columns(high, to);
  store_columns(middle, to + kTileNumbers);
  store_columns(low, to + 2 * kTileNumbers);
}

// Row pointers of a block of weights, one for each row of its tiles. Missing rows repeat the last one.
struct Reader {
  const float* rows[2 * kTile];
  int64_t ahead;  // offset to the data read after these rows
};

// The split weights that the tiles read while the next ones are prepared.
struct alignas(64) Bench {
  c10::BFloat16 parts[2][2][kPartsBlock];  // current and next; upper and lower sixteen outputs
};

constexpr int64_t kAhead = 4 * kAmxInputs;  // prefetch distance in inputs

HONE_AMX_INLINE void split_row(const Reader& reader, int64_t row, int64_t i, int64_t width, c10::BFloat16* to) {
  const float* from = reader.rows[row] + i;
  const float* later = from + (i + kAhead < width ? kAhead : reader.ahead);
  _mm_prefetch(later, _MM_HINT_T1);
  _mm_prefetch(later + kTile, _MM_HINT_T1);
  store_split(from, to + row / kTile * kPartsBlock + row % kTile * kAmxInputs);
}

// Tiles 0 and 1 hold sums, 2 to 4 the parts used by both, 5 to 7 those used by one. A sum adds its six products in a fixed
// order, independent of the number of rows: otherwise results would not be batch-invariant.
enum : int { kFirst, kSecond, kLow, kMiddle, kHigh, kA, kB, kC };

HONE_AMX_INLINE void load_held(const c10::BFloat16* block) {
  load_tile<kLow>(low_of(block), kTileStride);
  load_tile<kMiddle>(middle_of(block), kTileStride);
  load_tile<kHigh>(block, kTileStride);
}

// Up to sixteen rows: x is held while two blocks of weights pass. Move 0 to 11.
struct OneOfRows {
  static constexpr int64_t kOutputs = 2 * kTile, kRowBlocks = 1;

  HONE_AMX_INLINE static void begin(const c10::BFloat16* x, const c10::BFloat16* w) {
    load_tile<kA>(w, kTileStride);
    load_held(x);
    load_tile<kB>(middle_of(w), kTileStride);
    load_tile<kC>(low_of(w), kTileStride);
  }
  HONE_AMX_INLINE static void move(int64_t number, const c10::BFloat16*, const c10::BFloat16* w) {
    const auto* next = w + kPartsBlock;
    switch (number) {
      case 0:
        return multiply_tiles<kFirst, kA, kLow>();
      case 1:
        return multiply_tiles<kFirst, kA, kMiddle>();
      case 2:
        return multiply_tiles<kFirst, kA, kHigh>(), load_tile<kA>(next, kTileStride);
      case 3:
        return multiply_tiles<kFirst, kB, kMiddle>();
      case 4:
        return multiply_tiles<kFirst, kB, kHigh>(), load_tile<kB>(middle_of(next), kTileStride);
      case 5:
        return multiply_tiles<kFirst, kC, kHigh>(), load_tile<kC>(low_of(next), kTileStride);
      case 6:
        return multiply_tiles<kSecond, kA, kLow>();
      case 7:
        return multiply_tiles<kSecond, kA, kMiddle>();
      case 8:
        return multiply_tiles<kSecond, kA, kHigh>();
      case 9:
        return multiply_tiles<kSecond, kB, kMiddle>();
      case 10:
        return multiply_tiles<kSecond, kB, kHigh>();
      case 11:
        return multiply_tiles<kSecond, kC, kHigh>();
    }
  }
};

// Up to 32 rows: weights are held while two blocks of x pass.
struct TwoOfRows {
  static constexpr int64_t kOutputs = kTile, kRowBlocks = 2;

  HONE_AMX_INLINE static void begin(const c10::BFloat16* x, const c10::BFloat16* w) {
    load_tile<kA>(low_of(x), kTileStride);
    load_held(w);
    load_tile<kB>(middle_of(x), kTileStride);
    load_tile<kC>(x, kTileStride);
  }
  HONE_AMX_INLINE static void move(int64_t number, const c10::BFloat16* x, const c10::BFloat16*) {
    const auto* next = x + kPartsBlock;
    switch (number) {
      case 0:
        return multiply_tiles<kFirst, kHigh, kA>(), load_tile<kA>(low_of(next), kTileStride);
      case 1:
        return multiply_tiles<kFirst, kHigh, kB>();
      case 2:
        return multiply_tiles<kFirst, kHigh, kC>();
      case 3:
        return multiply_tiles<kFirst, kMiddle, kB>(), load_tile<kB>(middle_of(next), kTileStride);
      case 4:
        return multiply_tiles<kFirst, kMiddle, kC>();
      case 5:
        return multiply_tiles<kFirst, kLow, kC>(), load_tile<kC>(next, kTileStride);
      case 6:
        return multiply_tiles<kSecond, kHigh, kA>();
      case 7:
        return multiply_tiles<kSecond, kHigh, kB>();
      case 8:
        return multiply_tiles<kSecond, kHigh, kC>();
      case 9:
        return multiply_tiles<kSecond, kMiddle, kB>();
      case 10:
        return multiply_tiles<kSecond, kMiddle, kC>();
      case 11:
        return multiply_tiles<kSecond, kLow, kC>();
    }
  }
};

template <class Way>
HONE_AMX_INLINE Reader reader_of(const float* weight, int64_t first, const SkinnyShape& shape) {
  Reader reader;
  for (int64_t r = 0; r < Way::kOutputs; ++r) reader.rows[r] = weight + std::min(first + r, shape.count - 1) * shape.width;
  const bool last = first + Way::kOutputs >= shape.count;
  reader.ahead = last ? 0 : (Way::kOutputs - 1) * shape.width + kAhead;
  return reader;
}

struct alignas(64) AmxSums {
  float first[kTileSums] = {}, second[kTileSums] = {};

  // The sums of the tiles since they were last cleared.
  HONE_AMX_INLINE void collect() {
    alignas(64) float some[2 * kTileSums];
    store_tile<kFirst>(some, kSumsStride);
    store_tile<kSecond>(some + kTileSums, kSumsStride);
    add_sums(some, first, kTileSums);
    add_sums(some + kTileSums, second, kTileSums);
    clear_tile<kFirst>();
    clear_tile<kSecond>();
  }
};

template <class Way>
HONE_AMX_INLINE void put_outputs(const AmxSums& sums, float* y, int64_t first, const SkinnyShape& shape) {
  const int64_t count = std::min(Way::kOutputs, shape.count - first);
  y += first;
  put_sums(sums.first, std::min(count, kTile), std::min(shape.rows, kTile), y, shape.y_stride);
  if (Way::kRowBlocks == 2)
    put_sums(sums.second, count, shape.rows - kTile, y + kTile * shape.y_stride, shape.y_stride);
  else if (count > kTile)
    put_sums(sums.second, count - kTile, shape.rows, y + kTile, shape.y_stride);
}

// Tile loads alternate with splitting the next block's rows, so that both overlap.
template <class Way>
HONE_AMX_INLINE void outputs_by_parts(const c10::BFloat16* x, const float* weight, float* y, const SkinnyShape& shape) {
  constexpr int64_t kRowsAMove = Way::kOutputs / kTile;
  Bench bench;
  int64_t now = 0;
  auto reader = reader_of<Way>(weight, 0, shape);
  for (int64_t r = 0; r < Way::kOutputs; ++r) split_row(reader, r, 0, shape.width, bench.parts[now][0]);
  clear_tile<kFirst>();
  clear_tile<kSecond>();
  for (int64_t n = 0; n < shape.count; n += Way::kOutputs) {
    AmxSums sums;
    for (int64_t i = 0; i < shape.width; i += kAmxInputs, now ^= 1) {
      int64_t next = i + kAmxInputs;
      if (next == shape.width) reader = reader_of<Way>(weight, std::min(n + Way::kOutputs, shape.count - 1), shape), next = 0;
      const auto* block = x + i * kAmxRows * Way::kRowBlocks * kSplitTerms;
      const auto* w = bench.parts[now][0];
      Way::begin(block, w);
#pragma GCC unroll 32
      for (int64_t r = 0; r < Way::kOutputs; ++r) {
        split_row(reader, r, next, shape.width, bench.parts[now ^ 1][0]);
        if (r % kRowsAMove == 0) Way::move(r / kRowsAMove, block, w);
      }
      if (next % kSummedInputs == 0) sums.collect();  // the final one
    }
    put_outputs<Way>(sums, y, n, shape);
  }
}

}  // namespace

void pack_bf16x3(const float* x, c10::BFloat16* parts, int64_t rows, int64_t width, int64_t row_blocks) {
  for (int64_t i = 0; i < width; i += kAmxInputs)
    for (int64_t b = 0; b < row_blocks; ++b, parts += kPartsBlock) {
      const int64_t first = std::min(b * kAmxRows, rows);
      pack_block(x + first * width + i, parts, std::min(kAmxRows, rows - first), width);
    }
}

HONE_AMX void amx_outputs(const c10::BFloat16* parts, const float* weight, float* y, const SkinnyShape& shape) {
  set_up_full_tiles();
  if (shape.rows <= kAmxRows)
    outputs_by_parts<OneOfRows>(parts, weight, y, shape);
  else
    outputs_by_parts<TwoOfRows>(parts, weight, y, shape);
  release_tiles();
}

#else

void pack_bf16x3(const float*, c10::BFloat16*, int64_t, int64_t, int64_t) {
  fail_check("a processor with a matrix unit", __FILE__, __LINE__, "");
}
void amx_outputs(const c10::BFloat16*, const float*, float*, const SkinnyShape&) {
  fail_check("a processor with a matrix unit", __FILE__, __LINE__, "");
}

#endif

}  // namespace hone::ops::cpu
