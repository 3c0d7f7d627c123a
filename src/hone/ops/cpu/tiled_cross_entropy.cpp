#include "hone/ops/cpu/tiled_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "hone/base/error.h"
#include "hone/ops/cpu/parallel.h"
#include "hone/ops/cpu/vector/kernels.h"
#include "hone/ops/linear/matmul.h"

namespace hone::ops::cpu {
namespace {

constexpr int64_t kWidestModel = 512;
constexpr int64_t kBlockRows = 192;  // how often a cached tile of the head is used
constexpr int64_t kTasks = 16;       // few rows are also split by vocabulary, to use all cores

// Online softmax of one row, relative to the largest logit so far.
struct RowState {
  float peak = -INFINITY, total = 0, chosen = 0, all = 0;
  int64_t peak_tile = -1;     // the first tile that contains the largest logit
  bool holds_target = false;  // the target has been seen
  bool target_leads = false;  // the target is the first largest logit of its tile
};

// Adds one tile of a row's logits and replaces them by their exponentials; returns the factor for earlier sums.
float fold_tile(float* row, int64_t width, int64_t tile, bool with_sum, RowState& state) {
  const float peak = max_of_row(row, width), before = state.peak;
  float rescale = 1;
  if (peak > before) {
    state.peak = peak;
    state.peak_tile = tile;
    rescale = std::exp(before - peak);
  }
  if (with_sum) state.all += sum_of_row(row, width);
  state.total = state.total * rescale + exponentials_in_place(row, width, state.peak);
  return rescale;
}

// `row` still contains the raw logits.
void record_target(const float* row, int64_t width, int64_t target, RowState& state) {
  state.chosen = row[target];
  state.holds_target = state.target_leads = true;
  for (int64_t i = 0; i < width && state.target_leads; ++i)
    state.target_leads = i < target ? row[i] < row[target] : row[i] <= row[target];
}

class TiledCrossEntropy {
 public:
  TiledCrossEntropy(const Tensor& hidden, const Tensor& weight, const Tensor& targets, const Tensor& weights, double smoothing,
                    bool with_gradient)
      : hidden_(hidden),
        weight_(weight),
        target_(targets.const_data_ptr<int64_t>()),
        row_weight_(weights.defined() ? weights.const_data_ptr<float>() : nullptr),
        smoothing_(static_cast<float>(smoothing)),
        tile_width_(weight.size(1) <= 256 ? 1024 : 512) {
    found_.losses = at::empty({hidden.size(0)}, hidden.options());
    found_.correct = at::empty({hidden.size(0)}, targets.options());
    losses_ = found_.losses.mutable_data_ptr<float>();
    correct_ = found_.correct.mutable_data_ptr<int64_t>();
    if (!with_gradient) return;
    found_.dhidden = at::empty_like(hidden);
    gradient_ = found_.dhidden.mutable_data_ptr<float>();
    if (smoothing > 0) mean_weight_ = weight.mean(0);
  }

  TiledLosses run() {
    int64_t rows = hidden_.size(0), tiles = (weight_.size(0) + tile_width_ - 1) / tile_width_;
    if (rows == 0) return std::move(found_);
    // Split by size alone, so that results do not depend on the number of cores.
    int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
    int64_t vocab_splits = std::clamp<int64_t>(kTasks / blocks, 1, std::max<int64_t>(tiles / 8, 1));
    auto row_range = [&](int64_t block) { return Range{rows * block / blocks, rows * (block + 1) / blocks}; };
    std::vector<PartialSoftmax> parts(static_cast<size_t>(blocks * vocab_splits));
    parallel_tasks(blocks * vocab_splits, [&](int64_t task) {
      at::NoGradGuard no_grad;
      int64_t slice = task % vocab_splits;
      parts[static_cast<size_t>(task)] =
          accumulate_tiles(row_range(task / vocab_splits), {tiles * slice / vocab_splits, tiles * (slice + 1) / vocab_splits});
    });
    parallel_tasks(blocks, [&](int64_t block) {
      auto& whole = parts[static_cast<size_t>(block * vocab_splits)];
      for (int64_t slice = 1; slice < vocab_splits; ++slice)
        merge(whole, parts[static_cast<size_t>(block * vocab_splits + slice)]);
      finish_rows(row_range(block).begin, whole);
    });
    return std::move(found_);
  }

 private:
  struct Range {
    int64_t begin, end;
  };
  // A block of rows times a slice of the vocabulary: exponentials are relative to each row's maximum in the slice.
  struct PartialSoftmax {
    std::vector<RowState> states;
    Tensor sums;  // head rows weighted by the exponentials; undefined without gradient
  };

  PartialSoftmax accumulate_tiles(Range rows, Range tiles) const {
    int64_t count = rows.end - rows.begin;
    auto x = hidden_.narrow(0, rows.begin, count);
    PartialSoftmax part{std::vector<RowState>(static_cast<size_t>(count)),
                        found_.dhidden.defined() ? at::zeros_like(x) : Tensor()};
    for (int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
      int64_t from = tile * tile_width_, width = std::min(tile_width_, weight_.size(0) - from);
      auto head = weight_.narrow(0, from, width);
      auto logits = matmul_nt(x, head);
      fold_rows(logits, rows.begin, tile, part);
      if (part.sums.defined()) part.sums.add_(matmul_nn(logits, head));
    }
    return part;
  }

  void fold_rows(Tensor& logits, int64_t begin, int64_t tile, PartialSoftmax& part) const {
    constexpr int64_t kFewestRows = 8;  // worth a thread
    int64_t width = logits.size(1), h = hidden_.size(1);
    auto* values = logits.mutable_data_ptr<float>();
    auto* sums = part.sums.defined() ? part.sums.mutable_data_ptr<float>() : nullptr;
    parallel_pieces(logits.size(0), kFewestRows, [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) {
        auto* logit = values + row * width;
        auto& state = part.states[static_cast<size_t>(row)];
        int64_t target = target_[begin + row] - tile * tile_width_;
        if (target >= 0 && target < width) record_target(logit, width, target, state);
        float rescale = fold_tile(logit, width, tile, smoothing_ > 0, state);
        if (sums && rescale != 1) scale_row(sums + row * h, h, rescale);
      }
    });
  }

  // Merges the part that follows in the vocabulary.
  void merge(PartialSoftmax& whole, const PartialSoftmax& next) const {
    int64_t h = hidden_.size(1);
    for (size_t row = 0; row < whole.states.size(); ++row) {
      auto& state = whole.states[row];
      const auto& other = next.states[row];
      float peak = std::max(state.peak, other.peak), scale = std::exp(state.peak - peak),
            other_scale = std::exp(other.peak - peak);
      if (other.peak > state.peak) state.peak_tile = other.peak_tile;
      if (other.holds_target) state.chosen = other.chosen, state.target_leads = other.target_leads;
      state.peak = peak;
      state.total = state.total * scale + other.total * other_scale;
      state.all += other.all;
      auto offset = static_cast<int64_t>(row) * h;
      if (whole.sums.defined())
        add_scaled_row(whole.sums.mutable_data_ptr<float>() + offset, next.sums.const_data_ptr<float>() + offset, h, scale,
                       other_scale);
    }
  }

  void finish_rows(int64_t begin, const PartialSoftmax& part) {
    auto vocabulary = static_cast<float>(weight_.size(0));
    int64_t h = weight_.size(1);
    for (size_t i = 0; i < part.states.size(); ++i) {
      const auto& state = part.states[i];
      int64_t row = begin + static_cast<int64_t>(i), target = target_[row];
      float weight = row_weight_ ? row_weight_[row] : 1.0f;
      float spread = smoothing_ > 0 ? smoothing_ * state.all / vocabulary : 0;
      losses_[row] = weight * (state.peak + std::log(state.total) - (1 - smoothing_) * state.chosen - spread);
      correct_[row] = state.target_leads && state.peak_tile == target / tile_width_;
      if (!gradient_) continue;
      // The rest of the softmax gradient: sums of the head's rows minus the target's row, and minus their mean with label
      // smoothing.
      auto* gradient = gradient_ + row * h;
      std::memcpy(gradient, part.sums.const_data_ptr<float>() + static_cast<int64_t>(i) * h,
                  static_cast<size_t>(h) * sizeof(float));
      add_scaled_row(gradient, weight_.const_data_ptr<float>() + target * h, h, weight / state.total, -weight * (1 - smoothing_));
      if (smoothing_ > 0) add_scaled_row(gradient, mean_weight_.const_data_ptr<float>(), h, 1, -weight * smoothing_);
    }
  }

  const Tensor& hidden_;
  const Tensor& weight_;
  const int64_t* target_;
  const float* row_weight_;
  float smoothing_;
  int64_t tile_width_;
  Tensor mean_weight_;
  TiledLosses found_;
  float* losses_;
  int64_t* correct_;
  float* gradient_ = nullptr;
};

}  // namespace

bool supports_tiled(const Tensor& hidden, const Tensor& weight, const Tensor& bias) {
  return hidden.is_cpu() && hidden.scalar_type() == at::kFloat && weight.scalar_type() == at::kFloat && weight.is_contiguous() &&
         !bias.defined() && hidden.size(1) <= kWidestModel;
}

TiledLosses tiled_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& targets, const Tensor& weights,
                                double smoothing, bool with_gradient) {
  auto* target = targets.const_data_ptr<int64_t>();
  for (int64_t row = 0; row < targets.size(0); ++row)
    HONE_CHECK(target[row] >= 0 && target[row] < weight.size(0), "target {} of a vocabulary of {}", target[row], weight.size(0));
  return TiledCrossEntropy(hidden.contiguous(), weight, targets, weights, smoothing, with_gradient).run();
}

}  // namespace hone::ops::cpu
