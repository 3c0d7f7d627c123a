#include "hone/ops/npu/fused.h"

#include <limits>
#include <mutex>

#include "hone/ops/npu/boxed.h"

namespace hone::ops::npu {
namespace {

// cos and sin in the kernel's layout, [1, T, 1, head_dim] in x's dtype: computed once for all layers of a pass.
struct WideTable {
  c10::weak_intrusive_ptr<c10::TensorImpl> of{c10::intrusive_ptr<c10::TensorImpl>()};
  at::ScalarType dtype{};
  Tensor cos, sin;
};

const WideTable& wide_table(const RopeTable& table, at::ScalarType dtype) {
  static thread_local WideTable kept;
  auto alive = kept.of.lock();
  if (alive.get() == table.cos.unsafeGetTensorImpl() && kept.dtype == dtype) return kept;
  auto widened = [&](const Tensor& half) { return at::cat({half, half}, 1).to(dtype).unsqueeze(0).unsqueeze(2); };
  kept = {c10::weak_intrusive_ptr<c10::TensorImpl>(table.cos.getIntrusivePtr()), dtype, widened(table.cos), widened(table.sin)};
  return kept;
}

// Causal masks are passed compressed: one 2048 x 2048 triangle serves every length. Created once per device.
Tensor triangle(at::Device device) {
  constexpr int64_t kSide = 2048;
  static std::mutex mutex;
  static std::vector<Tensor> made;
  std::lock_guard lock(mutex);
  auto index = static_cast<size_t>(device.index());
  if (made.size() <= index) made.resize(index + 1);
  if (!made[index].defined()) made[index] = at::ones({kSide, kSide}, at::kByte).triu_(1).to(at::kBool).to(device);
  return made[index];
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) { return call("npu_rms_norm", {{x, weight, eps}}); }

Tensor rope(const Tensor& x, const RopeTable& table) {
  const auto& wide = wide_table(table, x.scalar_type());
  auto heads = x.view({1, x.size(0), -1, 2 * table.cos.size(1)});
  return call("npu_rotary_mul", {{heads, wide.cos, wide.sin}}).view(x.sizes());
}

Tensor swiglu(const Tensor& gate, const Tensor& up) { return call("npu_swiglu", {{at::cat({gate, up}, -1), int64_t{-1}}}); }

std::pair<Tensor, Tensor> swiglu_backward(const Tensor& dy, const Tensor& gate, const Tensor& up) {
  auto grads = call("npu_swiglu_backward", {{dy, at::cat({gate, up}, -1), int64_t{-1}}}).chunk(2, -1);
  return {grads[0], grads[1]};
}

bool supports_cross_entropy(const Tensor& logits, double smoothing) {
  return smoothing == 0 && supports(logits, "npu_cross_entropy_loss") && supports(logits, "npu_cross_entropy_loss_backward");
}

RowLosses cross_entropy_rows(Tensor& logits, const Tensor& targets, const Tensor& weights, bool into_gradient) {
  auto correct = (logits.argmax(1) == targets).sum();
  auto found = call_for_all("npu_cross_entropy_loss", {{logits.to(at::kFloat), targets}, {{"reduction", "none"}}});
  const auto &losses = found[0], &log_probabilities = found[1];
  if (into_gradient) {
    auto row_weights = weights.defined() ? weights : at::ones_like(losses);
    logits.copy_(call("npu_cross_entropy_loss_backward", {{row_weights, log_probabilities, targets}, {{"reduction", "none"}}}));
  }
  return {(weights.defined() ? losses * weights : losses).sum(), correct};
}

namespace {

constexpr int64_t kEverything = 0, kCausalFromBottomRight = 3;  // sparse modes

// Arguments of the kernels of both directions for one pair of chunks.
std::vector<std::pair<std::string_view, c10::IValue>> chunk_arguments(const Tensor& q, const Tensor& k, bool causal) {
  return {{"atten_mask", causal ? c10::IValue(triangle(q.device())) : c10::IValue()},
          {"actual_seq_qlen", std::vector<int64_t>{q.size(0)}},
          {"actual_seq_kvlen", std::vector<int64_t>{k.size(0)}},
          {"sparse_mode", causal ? kCausalFromBottomRight : kEverything}};
}

}  // namespace

bool supports_attention(const Tensor& q, const AttentionShape& shape) {
  return supports(q, "npu_fusion_attention") && shape.head_dim <= 512;
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const CuSeqlens& segments, const AttentionShape& shape) {
  constexpr int64_t kBand = 4, kUnbounded = std::numeric_limits<int32_t>::max();
  std::vector<int64_t> ends(segments.offsets.begin() + 1, segments.offsets.end());
  bool windowed = shape.window > 0 && segments.longest() > shape.window;
  const int64_t before = windowed ? shape.window - 1 : kUnbounded, after = shape.causal ? 0 : before;
  const int64_t mode = windowed ? kBand : shape.causal ? kCausalFromBottomRight : kEverything;
  auto heads = [](const Tensor& x, int64_t count) { return x.view({x.size(0), count, -1}); };
  auto out = call("npu_fusion_attention",
                  {{heads(q, shape.heads), heads(k, shape.kv_heads), heads(v, shape.kv_heads), shape.heads, "TND"},
                   {{"atten_mask", mode == kEverything ? c10::IValue() : c10::IValue(triangle(q.device()))},
                    {"scale", shape.scale},
                    {"pre_tockens", before},
                    {"next_tockens", after},
                    {"actual_seq_qlen", ends},
                    {"actual_seq_kvlen", ends},
                    {"sparse_mode", mode}}});
  return out.view({q.size(0), -1});
}

ChunkAttention chunk_attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, double scale) {
  auto named = chunk_arguments(q, k, causal);
  named.emplace_back("scale", scale);
  auto found = call_for_all("npu_fusion_attention", {{q, k, v, q.size(1), "TND"}, named});
  auto lse = found[1] + found[2].log();  // greatest score and sum, each eight times
  return {found[0], lse.select(2, 0).t()};
}

// The kernel's weights are exp(score - maximum) / sum: with the merged log-sum-exp for the maximum and a sum of one they are
// those of the whole sequence.
ChunkGradients chunk_attention_backward(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v,
                                        const ChunkAttention& whole, bool causal, double scale) {
  auto named = chunk_arguments(q, k, causal);
  auto most = whole.lse.t().unsqueeze(-1).expand({-1, -1, 8}).contiguous();
  named.emplace_back("scale_value", scale);
  named.emplace_back("softmax_max", most);
  named.emplace_back("softmax_sum", at::ones_like(most));
  named.emplace_back("attention_in", whole.out.contiguous());
  auto found = call_for_all("npu_fusion_attention_grad",
                            {{q.contiguous(), k.contiguous(), v.contiguous(), grad.contiguous(), q.size(1), "TND"}, named});
  return {found[0], found[1], found[2]};
}

}  // namespace hone::ops::npu
