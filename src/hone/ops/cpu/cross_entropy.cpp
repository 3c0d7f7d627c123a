#include "hone/ops/cpu/cross_entropy.h"

#include <cmath>

#include "hone/base/error.h"
#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/parallel.h"
#include "hone/ops/cpu/vector/kernels.h"

namespace hone::ops::cpu {
namespace {

struct RowResult {
  float loss;
  bool correct;
};

template <class T>
RowResult cross_entropy_row(T* row, int64_t width, int64_t target, float weight, float smoothing, bool into_gradient) {
  const auto softmax = softmax_of_row<T>(row, width, smoothing > 0);
  const float peak = softmax.peak, chosen = static_cast<float>(row[target]);
  const float loss = peak + std::log(softmax.total) - (1 - smoothing) * chosen -
                     (smoothing > 0 ? smoothing * softmax.all / static_cast<float>(width) : 0);
  // The first of equal logits is the prediction, as with argmax.
  bool correct = chosen == peak;
  for (int64_t i = 0; correct && i < target; ++i) correct = static_cast<float>(row[i]) < chosen;
  if (into_gradient) {
    const float scale = weight / softmax.total, spread = weight * smoothing / static_cast<float>(width);
    const float at_target = std::exp(chosen - peak) * scale - spread - weight * (1 - smoothing);
    softmax_gradient_row(row, width, peak, scale, spread);
    row[target] = static_cast<T>(at_target);
  }
  return {loss * weight, correct};
}

}  // namespace

void cross_entropy_rows(Tensor& logits, const Tensor& targets, const Tensor& weights, double smoothing, bool into_gradient,
                        Tensor& losses, Tensor& correct) {
  int64_t width = logits.size(1);
  auto* target = targets.const_data_ptr<int64_t>();
  auto* weight = weights.defined() ? weights.const_data_ptr<float>() : nullptr;
  auto* loss = losses.mutable_data_ptr<float>();
  auto* hit = correct.mutable_data_ptr<int64_t>();
  for (int64_t row = 0; row < logits.size(0); ++row)
    HONE_CHECK(target[row] >= 0 && target[row] < width, "target {} of a vocabulary of {}", target[row], width);
  with_type(logits.scalar_type(), [&](auto type) {
    using T = decltype(type);
    auto* rows = logits.mutable_data_ptr<T>();
    parallel_pieces(logits.size(0), row_grain(width), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        auto result = cross_entropy_row(rows + row * width, width, target[row], weight ? weight[row] : 1.0f,
                                        static_cast<float>(smoothing), into_gradient);
        loss[row] = result.loss;
        hit[row] = result.correct;
      }
    });
  });
}

}  // namespace hone::ops::cpu
