// Linear layers of up to 32 rows on x86, skinny_gemm_kernels.h where the processor has wide vectors: weights are widened by one
// instruction for a vector of them, blocks of the inputs stay in the first-level cache, and the next outputs' weights arrive at
// the pace at which they are used. The order of each sum depends only on the width.
//
// Included once per instruction set, inside a namespace of its own, by row_kernels_avx2.cpp and row_kernels_avx512.cpp. They
// define:
//   HONE_ROWS           the attribute of functions for the instruction set
//   Vector, kLanes      a register of floats
//   kMostRows           that are computed together; kOutputsAtATime<rows>: as many outputs as registers hold sums of
//   kOutputStep         a multiple of them, of which pieces of a weight are made
//   lanes_at(floats), put_lanes(floats, vector); first_of(weights), second_of(weights): the two vectors of a step
//   multiply_add, keep_in_register, put_sums<rows, outputs>(sums, y, stride)

namespace {

constexpr int64_t kStepInputs = 2 * kLanes;  // two vectors of each row and each output
// Inputs that a tile sums at a time: those of eight rows are 16 KiB of float32. Wider sums are kept in memory in between.
constexpr int64_t kInputsAtATime = 512;
// All rows pass over a piece of the weight of at most this size, or of kOutputStep outputs where these are larger. With the next
// piece, which is prefetched meanwhile, it takes an eighth of an L2 cache of 1 MiB, so that few of its lines are evicted.
constexpr int64_t kWeightBytesAtATime = int64_t{64} << 10;
constexpr int64_t kMostOutputs = 192;
constexpr int64_t kLineSize = 64;

// The last inputs of a row, and zeros.
template <class T>
struct LastInputs {
  alignas(kLineSize) T all[kStepInputs];

  HONE_INLINE LastInputs(const T* from, int64_t count) {
    std::memset(static_cast<void*>(all), 0, sizeof all);
    std::memcpy(static_cast<void*>(all), from, static_cast<size_t>(count) * sizeof(T));
  }
};

// Products of X rows and W outputs, in registers.
template <int64_t X, int64_t W>
struct RowTileSums {
  Vector of[W * X];
};

template <int64_t X, int64_t W>
HONE_ROWS HONE_INLINE void add_products(const float* x, const Vector (&weights)[W], RowTileSums<X, W>& sums) {
#pragma GCC unroll 8
  for (int64_t m = 0; m < X; ++m) {
    Vector row = lanes_at(x + m * kStepInputs);
    keep_in_register(row);  // otherwise it is loaded again for each output, which the two load units cannot do
#pragma GCC unroll 8
    for (int64_t n = 0; n < W; ++n) sums.of[n * X + m] = multiply_add(row, weights[n], sums.of[n * X + m]);
  }
}

// `line(n)`: the weights of an output's step.
template <int64_t X, int64_t W, class Line>
HONE_ROWS HONE_INLINE void add_step(const float* x, Line line, RowTileSums<X, W>& sums) {
  Vector weights[W];
#pragma GCC unroll 8
  for (int64_t n = 0; n < W; ++n) weights[n] = first_of(line(n));
  add_products<X, W>(x, weights, sums);
#pragma GCC unroll 8
  for (int64_t n = 0; n < W; ++n) weights[n] = second_of(line(n));
  add_products<X, W>(x + kLanes, weights, sums);
}

// Part of a layer: inputs from `from` on, of a weight `width` wide.
struct InputRange {
  int64_t from, count, width;
  bool are_first() const { return from == 0; }
  bool are_last() const { return from + count == width; }
};

// The weights to prefetch: from `at` on, this many bytes per step of a tile.
struct WeightPrefetch {
  const char* at;
  int64_t pace;
};

// X rows times W outputs. `kept` has the sums between blocks of inputs. Returns where prefetching got to.
template <int64_t X, int64_t W, class T>
HONE_ROWS HONE_INLINE const char* row_tile(const float* x, const T* weight, const InputRange& inputs, Vector* kept, float* y,
                                           int64_t y_stride, WeightPrefetch ahead) {
  RowTileSums<X, W> sums;
#pragma GCC unroll 24
  for (int64_t i = 0; i < X * W; ++i) sums.of[i] = inputs.are_first() ? Vector{} : kept[i];
  const T* lines = weight + inputs.from;
  int64_t i = 0;
  for (; i + kStepInputs <= inputs.count; i += kStepInputs, x += X * kStepInputs, ahead.at += ahead.pace) {
    __builtin_prefetch(ahead.at, 0, 2);
    __builtin_prefetch(ahead.at + kLineSize, 0, 2);
    add_step<X, W>(
        x, [&](int64_t n) __attribute__((always_inline)) { return lines + n * inputs.width + i; }, sums);
  }
  if (i < inputs.count)
#pragma GCC unroll 8
    for (int64_t n = 0; n < W; ++n) {
      const LastInputs<T> last(lines + n * inputs.width + i, inputs.count - i);
#pragma GCC unroll 8
      for (int64_t m = 0; m < X; ++m) {
        Vector& sum = sums.of[n * X + m];
        sum = multiply_add(lanes_at(x + m * kStepInputs), first_of(last.all), sum);
        sum = multiply_add(lanes_at(x + m * kStepInputs + kLanes), second_of(last.all), sum);
      }
    }
  if (inputs.are_last()) {
    put_sums<X, W>(sums.of, y, y_stride);
  } else {
#pragma GCC unroll 24
    for (int64_t j = 0; j < X * W; ++j) kept[j] = sums.of[j];
  }
  return ahead.at;
}

template <int64_t X, class T>
HONE_ROWS HONE_INLINE WeightPrefetch rows_outputs(const float* x, const T* weight, float* y, const SkinnyShape& shape,
                                                  float* kept, WeightPrefetch ahead, const char* end) {
  constexpr int64_t W = kOutputsAtATime<X>;
  auto* sums = reinterpret_cast<Vector*>(kept);
  const int64_t parts = (shape.width + kInputsAtATime - 1) / kInputsAtATime,
                each = (shape.width + parts * kStepInputs - 1) / (parts * kStepInputs) * kStepInputs;
  for (int64_t from = 0; from < shape.width; from += each) {
    const InputRange inputs{from, each < shape.width - from ? each : shape.width - from, shape.width};
    const float* rows = x + from * X;
    int64_t n = 0;
    for (; n + W <= shape.count; n += W) {
      const char* at = row_tile<X, W>(rows, weight + n * shape.width, inputs, sums + n * X, y + n, shape.y_stride, ahead);
      ahead.at = at < end ? at : end;
    }
    for (; n < shape.count; ++n)
      row_tile<X, 1>(rows, weight + n * shape.width, inputs, sums + n * X, y + n, shape.y_stride, WeightPrefetch{ahead.at, 0});
  }
  return ahead;
}

template <class Block>
HONE_ROWS HONE_INLINE void for_row_blocks(int64_t rows, Block block) {
  int64_t m = 0;
  if constexpr (kMostRows == 8)
    for (; m + 8 <= rows; m += 8) block.template operator()<8>(m);
  for (; m + 4 <= rows; m += 4) block.template operator()<4>(m);
  for (; m + 2 <= rows; m += 2) block.template operator()<2>(m);
  if (m < rows) block.template operator()<1>(m);
}

// One row is bound by memory. A weight's rows are too short for the hardware's prefetcher, so the next ones are prefetched at
// each step.
template <class T>
HONE_ROWS HONE_INLINE void outputs_of_row(const float* x, const T* weight, float* y, const SkinnyShape& shape) {
  constexpr int64_t W = kOutputsAtATime<1>;
  int64_t n = 0;
  for (; n + W <= shape.count; n += W) {
    const T* lines = weight + n * shape.width;
    RowTileSums<1, W> sums{};
    int64_t i = 0;
    for (; i + kStepInputs <= shape.width; i += kStepInputs) {
#pragma GCC unroll 4
      for (int64_t next = W; next < 2 * W; ++next)
#pragma GCC unroll 2
        for (int64_t line = 0; line < kStepInputs; line += kLineSize / static_cast<int64_t>(sizeof(T)))
          __builtin_prefetch(lines + next * shape.width + i + line);
      add_step<1, W>(
          x + i, [&](int64_t j) __attribute__((always_inline)) { return lines + j * shape.width + i; }, sums);
    }
    if (i < shape.width)
#pragma GCC unroll 4
      for (int64_t j = 0; j < W; ++j) {
        const LastInputs<T> last(lines + j * shape.width + i, shape.width - i);
        sums.of[j] = multiply_add(lanes_at(x + i), first_of(last.all), sums.of[j]);
        sums.of[j] = multiply_add(lanes_at(x + i + kLanes), second_of(last.all), sums.of[j]);
      }
    put_sums<1, W>(sums.of, y + n, shape.y_stride);
  }
  const InputRange all{0, shape.width, shape.width};
  for (; n < shape.count; ++n)
    row_tile<1, 1>(x, weight + n * shape.width, all, nullptr, y + n, shape.y_stride,
                   WeightPrefetch{reinterpret_cast<const char*>(weight), 0});
}

int64_t row_size(int64_t width) { return (width + kStepInputs - 1) / kStepInputs * kStepInputs; }

template <class T>
HONE_ROWS void all_outputs(const float* x, const T* weight, float* y, const SkinnyShape& shape) {
  if (shape.rows == 1) return outputs_of_row(x, weight, y, shape);
  thread_local AlignedVector<float> kept_sums;
  float* kept = grown(kept_sums, kMostOutputs * kMostRows * kLanes);
  const int64_t line = shape.width * static_cast<int64_t>(sizeof(T)),
                fitting = kWeightBytesAtATime / line / kOutputStep * kOutputStep,
                piece = fitting < kOutputStep    ? kOutputStep
                        : fitting < kMostOutputs ? fitting
                                                 : kMostOutputs;
  // A step of the most rows uses the weights of a few outputs; all rows pass over them.
  const int64_t passes = shape.rows < kMostRows ? 1 : shape.rows / kMostRows,
                pace = kOutputsAtATime<kMostRows> * kStepInputs * static_cast<int64_t>(sizeof(T)) / passes;
  for (int64_t n = 0; n < shape.count; n += piece) {
    const int64_t left = shape.count - n;
    SkinnyShape part = shape;
    part.count = piece < left ? piece : left;
    const auto *rows = weight + n * shape.width, *next = rows + part.count * shape.width;
    const char* end = reinterpret_cast<const char*>(next + (piece < left - part.count ? piece : left - part.count) * shape.width);
    WeightPrefetch ahead{reinterpret_cast<const char*>(next), pace};
    for_row_blocks(
        shape.rows, [&]<int64_t X>(int64_t m) HONE_ROWS __attribute__((always_inline)) {
          ahead = rows_outputs<X>(x + m * row_size(shape.width), rows, y + m * shape.y_stride + n, part, kept, ahead, end);
        });
  }
}

template <class T>
HONE_ROWS void pack_steps(const T* x, float* packed, int64_t rows, int64_t width) {
  for_row_blocks(
      rows, [&]<int64_t X>(int64_t first) HONE_ROWS __attribute__((always_inline)) {
        for (int64_t i = 0; i < width; i += kStepInputs)
          for (int64_t m = 0; m < X; ++m, packed += kStepInputs) {
            const T* from = x + (first + m) * width + i;
            if (i + kStepInputs <= width) {
              put_lanes(packed, first_of(from)), put_lanes(packed + kLanes, second_of(from));
            } else {
              const LastInputs<T> last(from, width - i);
              put_lanes(packed, first_of(last.all)), put_lanes(packed + kLanes, second_of(last.all));
            }
          }
      });
}

}  // namespace

template <class T>
RowKernels<T> row_kernels() {
  return {row_size, pack_steps<T>, all_outputs<T>};
}
template RowKernels<float> row_kernels();
template RowKernels<c10::BFloat16> row_kernels();
template RowKernels<c10::Half> row_kernels();
