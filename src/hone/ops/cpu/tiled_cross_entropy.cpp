#include "hone/ops/cpu/tiled_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "hone/base/error.h"
#include "hone/ops/cpu/parallel.h"
#include "hone/ops/cpu/tiled_softmax.h"
#include "hone/ops/cpu/vector/kernels.h"
#include "hone/ops/cpu/vector/panel_columns.h"

namespace hone::ops::cpu {
namespace {

constexpr int64_t kWidestModel = 512;
constexpr int64_t kTasks = 64;      // few rows are also split by vocabulary, to use all cores
constexpr int64_t kLeastTiles = 2;  // of such a slice

class TiledCrossEntropy {
 public:
  TiledCrossEntropy(const Tensor& hidden, const Tensor& weight, const Tensor& targets, const Tensor& weights, double smoothing,
                    bool with_gradient)
      : inputs_{hidden.contiguous(), weight, targets.const_data_ptr<int64_t>(), smoothing > 0, with_gradient},
        row_weight_(weights.defined() ? weights.const_data_ptr<float>() : nullptr),
        smoothing_(static_cast<float>(smoothing)) {
    found_.losses = at::empty({hidden.size(0)}, hidden.options());
    found_.correct = at::empty({hidden.size(0)}, targets.options());
    losses_ = found_.losses.mutable_data_ptr<float>();
    correct_ = found_.correct.mutable_data_ptr<int64_t>();
    if (!with_gradient) return;
    found_.dhidden = at::empty_like(inputs_.hidden);
    gradient_ = found_.dhidden.mutable_data_ptr<float>();
    if (smoothing > 0) mean_weight_ = weight.mean(0);
  }

  TiledLosses run() {
    const int64_t rows = inputs_.hidden.size(0), words = inputs_.weight.size(0), step = tile_words(inputs_.weight.size(1));
    if (rows == 0) return std::move(found_);
    // Split by size alone, so that results do not depend on the number of cores.
    const int64_t tiles = (words + step - 1) / step, blocks = (rows + block_rows() - 1) / block_rows();
    const int64_t size = (rows + blocks - 1) / blocks;
    const int64_t slices = std::clamp<int64_t>(kTasks / blocks, 1, std::max<int64_t>(tiles / kLeastTiles, 1));
    const auto softmax = has_panel_columns() ? softmax_by_panels : softmax_by_matmul;
    std::vector<PartialSoftmax> parts(static_cast<size_t>(blocks * slices));
    parallel_tasks(blocks * slices, [&](int64_t task) {
      at::NoGradGuard no_grad;
      const int64_t first = task / slices * size, slice = task % slices;
      parts[static_cast<size_t>(task)] =
          softmax(inputs_, {first, std::min(first + size, rows)},
                  {tiles * slice / slices * step, std::min(tiles * (slice + 1) / slices * step, words)});
    });
    parallel_pieces(rows, 32, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        finish_row(row, row % size, {&parts[static_cast<size_t>(row / size * slices)], static_cast<size_t>(slices)});
    });
    return std::move(found_);
  }

 private:
  // Adds what its slices of the vocabulary found, in order.
  void finish_row(int64_t row, int64_t place, std::span<const PartialSoftmax> slices) {
    const int64_t h = inputs_.weight.size(1);
    auto sums_of = [&](const PartialSoftmax& part) { return part.sums.const_data_ptr<float>() + place * h; };
    auto* gradient = gradient_ ? gradient_ + row * h : nullptr;
    auto state = slices[0].states[static_cast<size_t>(place)];
    if (gradient) std::memcpy(gradient, sums_of(slices[0]), static_cast<size_t>(h) * sizeof(float));
    for (const auto& part : slices.subspan(1)) {
      const auto& other = part.states[static_cast<size_t>(place)];
      const float scale = state.raise_peak(other.peak, other.target_leads), other_scale = std::exp(other.peak - state.peak);
      state.total = state.total * scale + other.total * other_scale;
      state.chosen += other.chosen;
      state.all += other.all;
      if (gradient) add_scaled_row(gradient, sums_of(part), h, scale, other_scale);
    }
    const float weight = row_weight_ ? row_weight_[row] : 1.0f;
    const float spread = smoothing_ > 0 ? smoothing_ * state.all / static_cast<float>(inputs_.weight.size(0)) : 0;
    losses_[row] = weight * (state.peak + std::log(state.total) - (1 - smoothing_) * state.chosen - spread);
    correct_[row] = state.target_leads;
    if (!gradient) return;
    // The rest of the softmax gradient: sums of the head's rows minus the target's row, and minus their mean with label
    // smoothing.
    const auto* target_row = inputs_.weight.const_data_ptr<float>() + inputs_.targets[row] * h;
    add_scaled_row(gradient, target_row, h, weight / state.total, -weight * (1 - smoothing_));
    if (smoothing_ > 0) add_scaled_row(gradient, mean_weight_.const_data_ptr<float>(), h, 1, -weight * smoothing_);
  }

  const SoftmaxInputs inputs_;
  const float* row_weight_;
  const float smoothing_;
  Tensor mean_weight_;  // of the head
  TiledLosses found_;
  float* losses_;
  int64_t* correct_;
  float* gradient_ = nullptr;
};

}  // namespace

bool supports_tiled(const Tensor& hidden, const Tensor& weight, const Tensor& bias) {
  // Logits of 16-bit heads are rounded, as in generation and in transformers.
  return hidden.is_cpu() && hidden.scalar_type() == at::kFloat && weight.scalar_type() == at::kFloat && weight.is_contiguous() &&
         !bias.defined() && hidden.size(1) <= kWidestModel;
}

TiledLosses tiled_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& targets, const Tensor& weights,
                                double smoothing, bool with_gradient) {
  auto* target = targets.const_data_ptr<int64_t>();
  for (int64_t row = 0; row < targets.size(0); ++row)
    HONE_CHECK(target[row] >= 0 && target[row] < weight.size(0), "target {} of a vocabulary of {}", target[row], weight.size(0));
  return TiledCrossEntropy(hidden, weight, targets, weights, smoothing, with_gradient).run();
}

}  // namespace hone::ops::cpu
