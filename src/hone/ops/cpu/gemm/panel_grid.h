// Splits a panel product among threads, in blocks of sums. Results do not depend on the split.
#pragma once
#include "hone/ops/cpu/gemm/panel_gemm_kernels.h"
#include "hone/ops/cpu/parallel.h"

namespace hone::ops::cpu {

inline int64_t up_to(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }
inline int64_t pieces_of(int64_t size, int64_t piece) { return (size + piece - 1) / piece; }

struct PanelBlock {
  int64_t row, rows, column, columns;
  int64_t stride() const { return up_to(columns, kPanelColumns); }  // of its sums
};

class PanelGrid {
 public:
  // A block's sums, 512 x 192, and the panels of its columns stay in the L2 cache.
  static constexpr int64_t kRows = 512, kColumns = 192;
  static constexpr int64_t kLeastProducts = int64_t{1} << 17;  // worth a thread

  // Columns are split first: a block packs its own columns, and the rows are packed once for all of them. Threads get equally
  // many blocks of almost equal width.
  PanelGrid(int64_t rows, int64_t columns, int64_t depth)
      : rows_(rows), columns_(columns), panels_(pieces_of(columns, kPanelColumns)), across_(pieces_of(columns, kColumns)) {
    int64_t down = pieces_of(rows, kRows);
    block_rows_ = up_to(pieces_of(rows, down), kPanelRows);
    const int64_t threads = at::get_num_threads();
    const int64_t wanted = threads == 1 ? 1 : std::min(4 * threads, rows * columns * depth / kLeastProducts);
    while (blocks() < wanted && panels_ > 2 * across_) ++across_;
    while (blocks() < wanted && rows > 8 * kPanelRows * down) block_rows_ = up_to(pieces_of(rows, ++down), kPanelRows);
    while (blocks() > threads && blocks() % threads > 0 && panels_ > 2 * across_) ++across_;
  }

  // compute(block) for each block.
  template <class Compute>
  void for_blocks(Compute compute) const {
    parallel_pieces(blocks(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / across_ * block_rows_, column = column_of(i % across_);
        compute(PanelBlock{row, std::min(block_rows_, rows_ - row), column, column_of(i % across_ + 1) - column});
      }
    });
  }

 private:
  int64_t blocks() const { return pieces_of(rows_, block_rows_) * across_; }
  int64_t column_of(int64_t block) const { return std::min(columns_, panels_ * block / across_ * kPanelColumns); }

  int64_t rows_, columns_, panels_, across_, block_rows_;
};

}  // namespace hone::ops::cpu
