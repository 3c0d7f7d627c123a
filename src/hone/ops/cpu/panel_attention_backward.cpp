// The gradient of panel_attention.h. Weights are computed again from the scores and their logsumexp: P = exp(S - logsumexp). Then
// dV = Pᵀ dO, dS = P (dO Vᵀ - rows of dO · O), dQ = dS K, dK = dSᵀ Q.
#include <algorithm>
#include <numbers>

#include "hone/base/error.h"
#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/gemm/panel_grid.h"
#include "hone/ops/cpu/panel_attention.h"
#include "hone/ops/cpu/scratch.h"
#include "hone/ops/cpu/vector/kernels.h"
#include "hone/ops/cpu/vector/panel_columns.h"
#include "hone/ops/cpu/visible_keys.h"

namespace hone::ops::cpu {

namespace {

constexpr int64_t kGradientRows = 96;   // queries at a time
constexpr int64_t kGradientKeys = 192;  // keys at a time
static_assert(kGradientRows % kPanelColumns == 0 && kGradientRows % kPanelRows == 0 && kGradientKeys % kPanelColumns == 0);

// One head of one sequence. Rows are `stride`, those of keys and values `key_stride` elements apart.
template <class T>
struct HeadOfSequence {
  const T *q, *k, *v, *dout;
  int64_t stride, key_stride;
  const float *logsumexp, *rows_dot;
  T* dq;
  float *dk, *dv;
  int64_t sum_stride;  // of dk and dv
  bool accumulates;    // dk and dv are added to, not overwritten
};

// Computes one head at a time. A panel of keys at a time are the columns of the products that give scores, dV and dK, which thus
// read each other's results as they are; only dS is transposed, for dQ.
template <class T>
class HeadGradient {
 public:
  // `memory`: a thread's, for tiles. It outlives this object.
  HeadGradient(const AttentionShape& shape, int64_t longest, AlignedVector<float>& memory)
      : shape_(shape),
        depth_(shape.head_dim),
        width_(up_to(shape.head_dim, kPanelRows)),
        query_sums_(up_to(longest, kPanelColumns) * width_),
        dq_(query_sums_.data()) {
    const std::pair<float**, int64_t> parts[] = {{&query_rows_, kGradientRows * depth_},
                                                 {&dout_rows_, kGradientRows * depth_},
                                                 {&query_lines_, kGradientRows * width_},
                                                 {&dout_lines_, kGradientRows * width_},
                                                 {&keys_, kGradientKeys * depth_},
                                                 {&values_, kGradientKeys * depth_},
                                                 {&key_lines_, kGradientKeys * width_},
                                                 {&logsumexp_, kGradientRows * kPanelColumns},
                                                 {&dots_, kGradientRows * kPanelColumns},
                                                 {&weights_, kGradientRows * kPanelColumns},
                                                 {&gradients_, kGradientRows * kPanelColumns},
                                                 {&by_query_, kGradientRows * kGradientKeys},
                                                 {&dk_, kGradientKeys * width_},
                                                 {&dv_, kGradientKeys * width_},
                                                 {&line_, depth_}};
    int64_t size = 0;
    for (const auto& part : parts) size += part.second;
    float* next = grown(memory, size);
    for (const auto& part : parts) *part.first = next, next += part.second;
  }

  void compute(const HeadOfSequence<T>& head, int64_t length) {
    head_ = head;
    visible_ = {length, length, shape_.window, shape_.causal};
    std::fill_n(dq_, up_to(length, kPanelColumns) * width_, 0.0f);
    find_learning_tiles();
    for (int64_t key = 0; key < length; key += kGradientKeys) add_block({key, std::min(key + kGradientKeys, length)});
    for (int64_t row = 0; row < length; ++row) store_sums(line_of(dq_, row), nullptr, head_.dq + row * head_.stride, depth_);
  }

 private:
  // One of the lines whose panels are columns of `sums`.
  const float* line_of(const float* sums, int64_t line) {
    const float* from = sums + line / kPanelColumns * kPanelColumns * width_ + line % kPanelColumns;
    for (int64_t i = 0; i < depth_; ++i) line_[i] = from[i * kPanelColumns];
    return line_;
  }

  // Tiles of queries whose outputs nothing was learned from add nothing: prompts, in the last block of a fine-tuned model.
  void find_learning_tiles() {
    learns_.assign(static_cast<size_t>(pieces_of(visible_.queries, kGradientRows)), false);
    for (int64_t row = 0; row < visible_.queries; ++row) {
      const T* dout = head_.dout + row * head_.stride;
      auto tile = learns_[static_cast<size_t>(row / kGradientRows)];
      if (!tile) tile = std::any_of(dout, dout + depth_, [](T value) { return static_cast<float>(value) != 0; });
    }
  }

  void add_block(KeyRange keys) {
    const int64_t count = keys.end - keys.begin;
    const T *k = head_.k + keys.begin * head_.key_stride, *v = head_.v + keys.begin * head_.key_stride;
    pack_column_panels(k, PanelSource{head_.key_stride, 1, count, depth_}, keys_);
    pack_column_panels(v, PanelSource{head_.key_stride, 1, count, depth_}, values_);
    pack_row_panels(k, PanelSource{1, head_.key_stride, depth_, count}, key_lines_);
    std::fill_n(dk_, kGradientKeys * width_, 0.0f);
    std::fill_n(dv_, kGradientKeys * width_, 0.0f);
    for (int64_t first = 0; first < visible_.queries; first += kGradientRows) {
      if (!learns_[static_cast<size_t>(first / kGradientRows)]) continue;
      const int64_t rows = std::min(kGradientRows, visible_.queries - first);
      if (!overlap(keys_of_rows(visible_, first, first + rows), keys).empty()) add_tile(first, rows, keys);
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t place = (keys.begin + i) * head_.sum_stride;
      store_sum(line_of(dk_, i), head_.dk + place);
      store_sum(line_of(dv_, i), head_.dv + place);
    }
  }

  void store_sum(const float* sum, float* to) const {
    if (head_.accumulates)
      add_scaled_row(to, sum, depth_, 1, 1);
    else
      std::copy_n(sum, depth_, to);
  }

  void add_tile(int64_t first, int64_t rows, KeyRange keys) {
    const T *q = head_.q + first * head_.stride, *dout = head_.dout + first * head_.stride;
    const auto scale = static_cast<float>(shape_.scale);
    pack_row_panels(q, PanelSource{head_.stride, 1, rows, depth_}, query_rows_);
    scale_row(query_rows_, up_to(rows, kPanelRows) * depth_, scale * std::numbers::log2e_v<float>);
    pack_row_panels(dout, PanelSource{head_.stride, 1, rows, depth_}, dout_rows_);
    pack_row_panels(q, PanelSource{1, head_.stride, depth_, rows}, query_lines_);
    pack_row_panels(dout, PanelSource{1, head_.stride, depth_, rows}, dout_lines_);
    for (int64_t row = 0; row < rows; ++row) {
      std::fill_n(logsumexp_ + row * kPanelColumns, kPanelColumns, head_.logsumexp[first + row] * std::numbers::log2e_v<float>);
      std::fill_n(dots_ + row * kPanelColumns, kPanelColumns, head_.rows_dot[first + row]);
    }
    for (int64_t c = 0; c < keys.end - keys.begin; c += kPanelColumns) add_keys(first, rows, keys.begin + c, c, scale);
    for (int64_t row = 0; row < rows; row += kPanelColumns) add_to_queries(first, row, std::min(row + kPanelColumns, rows), keys);
  }

  // The rows of a tile that see one of a panel of keys from `key` on. Both ends are those of panels of queries as columns, and
  // the first one that of a panel of rows.
  KeyRange rows_that_see(int64_t first, int64_t rows, int64_t key) const {
    int64_t begin = 0, end = rows;
    while (begin < end && visible_.of(first + begin).end <= key) ++begin;
    while (begin < end && visible_.of(first + end - 1).begin >= key + kPanelColumns) --end;
    return {begin / kPanelColumns * kPanelColumns / kPanelRows * kPanelRows, std::min(rows, up_to(end, kPanelColumns))};
  }

  // A panel of keys from `key` on, which is `c` in its block.
  void add_keys(int64_t first, int64_t rows, int64_t key, int64_t c, float scale) {
    const auto seen = rows_that_see(first, rows, key);
    if (seen.empty()) return;
    for (int64_t row = seen.begin; row < seen.end; row += kPanelRows) {
      multiply_(query_rows_ + row * depth_, keys_ + c * depth_, depth_, weights_ + row * kPanelColumns, kPanelColumns, false);
      multiply_(dout_rows_ + row * depth_, values_ + c * depth_, depth_, gradients_ + row * kPanelColumns, kPanelColumns, false);
    }
    const int64_t start = seen.begin * kPanelColumns, count = seen.end - seen.begin;
    weights_and_gradients(weights_ + start, gradients_ + start, logsumexp_ + start, dots_ + start, count * kPanelColumns, scale);
    hide(first, seen, key);
    for (int64_t i = 0; i < width_; i += kPanelRows) {
      const int64_t line = i * rows + seen.begin * kPanelRows, sum = c * width_ + i * kPanelColumns;
      multiply_(dout_lines_ + line, weights_ + start, count, dv_ + sum, kPanelColumns, true);
      multiply_(query_lines_ + line, gradients_ + start, count, dk_ + sum, kPanelColumns, true);
    }
    for (int64_t row = seen.begin / kPanelColumns * kPanelColumns; row < seen.end; row += kPanelColumns)
      pack_column_panels(gradients_ + row * kPanelColumns, PanelSource{kPanelColumns, 1, kPanelColumns, kPanelColumns},
                         by_query_ + row * kGradientKeys + c * kPanelColumns);
  }

  // Zeros for the keys, of a panel from `key` on, that a row does not see.
  void hide(int64_t first, KeyRange rows, int64_t key) {
    auto sees_all = [&](int64_t row) {
      const auto own = visible_.of(first + row);
      return own.begin <= key && own.end >= std::min(key + kPanelColumns, visible_.keys);
    };
    if (sees_all(rows.begin) && sees_all(rows.end - 1)) return;  // and so do those between
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const auto own = visible_.of(first + row);
      for (int64_t j = 0; j < kPanelColumns; ++j)
        if (key + j < own.begin || key + j >= own.end)
          weights_[row * kPanelColumns + j] = gradients_[row * kPanelColumns + j] = 0.0f;
    }
  }

  // Adds the rows [row, end) of the tile to dQ.
  void add_to_queries(int64_t first, int64_t row, int64_t end, KeyRange keys) {
    const auto seen = overlap(keys_of_rows(visible_, first + row, first + end), keys);
    if (seen.empty()) return;
    const int64_t begin = (seen.begin - keys.begin) / kPanelColumns * kPanelColumns, count = seen.end - keys.begin - begin;
    for (int64_t i = 0; i < width_; i += kPanelRows)
      multiply_(key_lines_ + i * (keys.end - keys.begin) + begin * kPanelRows,
                by_query_ + row * kGradientKeys + begin * kPanelColumns, count, dq_ + (first + row) * width_ + i * kPanelColumns,
                kPanelColumns, true);
  }

  const AttentionShape shape_;
  const int64_t depth_, width_;
  const MultiplyPanels multiply_ = multiply_panels_here();
  HeadOfSequence<T> head_{};
  VisibleKeys visible_{};
  std::vector<bool> learns_;                                     // each tile of queries
  float *query_rows_, *dout_rows_, *query_lines_, *dout_lines_;  // of a tile of queries; lines are elements of a head
  float *logsumexp_, *dots_;                                     // of its rows, each kPanelColumns times
  float *keys_, *values_, *key_lines_;                           // of a block of keys
  float *weights_, *gradients_;                                  // [rows, a panel of keys]
  float* by_query_;                                              // gradients, by panels of queries
  float *dk_, *dv_;                                              // by panels of lines
  float* line_;
  const CallBuffer query_sums_;
  float* const dq_;  // the same layout
};

}  // namespace

void panel_attention_backward(const std::vector<std::pair<int64_t, int64_t>>& sequences, const AttentionShape& shape,
                              const AttentionGradients& x) {
  const int64_t tokens = x.q.size(0), heads = shape.heads, depth = shape.head_dim, group = heads / shape.kv_heads;
  const auto rows_dot = (x.dout.to(at::kFloat) * x.out.to(at::kFloat)).view({tokens, heads, depth}).sum(2).t().contiguous();
  // A task adds up the gradients of the query heads that share a key head. Only if that keeps threads idle, each head is a task
  // with memory for its own gradients.
  const int64_t key_heads = static_cast<int64_t>(sequences.size()) * shape.kv_heads, threads = at::get_num_threads();
  const int64_t joined = key_heads % threads == 0 || key_heads >= 4 * threads ? group : 1, parts = heads / joined;
  const auto dk = at::empty({tokens, parts * depth}, x.q.options().dtype(at::kFloat)), dv = at::empty_like(dk);
  int64_t longest = 0;
  for (const auto& sequence : sequences) longest = std::max(longest, sequence.second);
  with_type(x.q.scalar_type(), [&](auto type) {
    using T = decltype(type);
    parallel_pieces(static_cast<int64_t>(sequences.size()) * parts, 1, [&](int64_t begin, int64_t end) {
      thread_local AlignedVector<float> memory;
      HeadGradient<T> gradient(shape, longest, memory);
      for (int64_t i = begin * joined; i < end * joined; ++i) {
        const auto [first, length] = sequences[static_cast<size_t>(i / heads)];
        const int64_t head = i % heads, own = (first * heads + head) * depth,
                      key = (first * shape.kv_heads + head / group) * depth, sum = (first * parts + head / joined) * depth;
        gradient.compute({.q = x.q.const_data_ptr<T>() + own,
                          .k = x.k.const_data_ptr<T>() + key,
                          .v = x.v.const_data_ptr<T>() + key,
                          .dout = x.dout.const_data_ptr<T>() + own,
                          .stride = heads * depth,
                          .key_stride = shape.kv_heads * depth,
                          .logsumexp = x.logsumexp.const_data_ptr<float>() + first * heads + head * length,
                          .rows_dot = rows_dot.const_data_ptr<float>() + head * tokens + first,
                          .dq = x.dq.mutable_data_ptr<T>() + own,
                          .dk = dk.mutable_data_ptr<float>() + sum,
                          .dv = dv.mutable_data_ptr<float>() + sum,
                          .sum_stride = parts * depth,
                          .accumulates = head % joined > 0},
                         length);
      }
    });
  });
  // In the order of the heads, as a task adds: results do not depend on the number of threads.
  auto add_up = [&](const Tensor& sums, const Tensor& to, int64_t first, int64_t length) {
    const auto by_part = sums.narrow(0, first, length).view({length, shape.kv_heads, group / joined, depth});
    const auto sum = by_part.select(2, 0);
    for (int64_t part = 1; part < by_part.size(2); ++part) sum.add_(by_part.select(2, part));
    to.narrow(0, first, length).view(sum.sizes()).copy_(sum);
  };
  for (const auto& [first, length] : sequences) add_up(dk, x.dk, first, length), add_up(dv, x.dv, first, length);
}

}  // namespace hone::ops::cpu
