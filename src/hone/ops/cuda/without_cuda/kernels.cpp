// A build without CUDA kernels: nothing is supported, and nothing is called.
#include "hone/base/error.h"
#include "hone/ops/cuda/adam.h"
#include "hone/ops/cuda/column_sums.h"
#include "hone/ops/cuda/delta_net.h"
#include "hone/ops/cuda/delta_rule.h"
#include "hone/ops/cuda/float8.h"
#include "hone/ops/cuda/fused.h"
#include "hone/ops/cuda/gradient_norm.h"
#include "hone/ops/cuda/moe.h"
#include "hone/ops/cuda/moe_routing.h"
#include "hone/ops/cuda/norm.h"
#include "hone/ops/cuda/paged_attention.h"
#include "hone/ops/cuda/qk_norm_rope.h"
#include "hone/ops/cuda/sample_tokens.h"
#include "hone/ops/cuda/thin_linear.h"
#include "hone/ops/cuda/training.h"

namespace hone::ops::cuda {
namespace {

[[noreturn]] void no_kernels() { fail_check("CUDA kernels", __FILE__, __LINE__, "built without them"); }

}  // namespace

// fused.h
bool supports_fused(const Tensor&) { return false; }
Tensor rope(const Tensor&, const Tensor&, const Tensor&) { no_kernels(); }
Tensor swiglu(const Tensor&, const Tensor&) { no_kernels(); }

// column_sums.h
Tensor column_sums(const Tensor&) { no_kernels(); }
Tensor total_of_sums(const Tensor&, at::ScalarType) { no_kernels(); }

// norm.h
bool supports_norm(const Tensor&, const Tensor&) { return false; }
NormedRows rms_norm_rows(const Tensor&, const Tensor&, const Tensor&, double, double) { no_kernels(); }
NormGradients rms_norm_rows_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, double, bool) {
  no_kernels();
}

// paged_attention.h
bool supports_paged(const Tensor&, const AttentionShape&) { return false; }
bool supports_paged(const Tensor&, const AttentionShape&, KvCacheDtype, int64_t) { return false; }
void store_kv(const Tensor&, const Tensor&, KvCacheLayer&, const PagedAttentionMetadata&) { no_kernels(); }
RotatedHeads qk_norm_rope_store_kv(const Tensor&, const QkNorm&, const RopeTable&, KvCacheLayer&, const PagedAttentionMetadata&,
                                   const AttentionShape&, bool) {
  no_kernels();
}
Tensor paged_decode(const Tensor&, const KvCacheLayer&, const PagedAttentionMetadata&, const AttentionShape&) { no_kernels(); }

// qk_norm_rope.h
bool supports_norm_rope(const Tensor&, const Tensor&, const Tensor&) { return false; }
NormedHeads norm_rope_heads(const Tensor&, const Tensor&, double, const Tensor&, const Tensor&) { no_kernels(); }
Tensor norm_rope_heads_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                const Tensor&, bool) {
  no_kernels();
}

// sample_tokens.h
bool supports_sampling(const Tensor&) { return false; }
Tensor sample_tokens(const Tensor&, const SamplingTensors&) { no_kernels(); }

// thin_linear.h
bool supports_thin(const Tensor&, const Tensor&) { return false; }
Tensor thin_linear(const Tensor&, const Tensor&, const Tensor&, const ThinFusion&) { no_kernels(); }

// moe.h
bool supports_combine(const Tensor&, int64_t) { return false; }
Tensor combine_rows(const Tensor&, const Tensor&, const Tensor&, int64_t) { no_kernels(); }
Tensor copy_rows(const Tensor&, const Tensor&, int64_t) { no_kernels(); }
CombineGradients combine_rows_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool) { no_kernels(); }
bool supports_weighted_swiglu(const Tensor&) { return false; }
Tensor weighted_swiglu(const Tensor&, const Tensor&, const Tensor&) { no_kernels(); }
WeightedSwigluGradients weighted_swiglu_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&) { no_kernels(); }

// moe_routing.h
bool supports_routing(const Tensor&, int64_t) { return false; }
Routed route_top_k(const Tensor&, int64_t, bool) { no_kernels(); }
Tensor route_top_k_backward(const Tensor&, const Tensor&, const Routed&, bool) { no_kernels(); }
bool supports_expert_sort(const Tensor&, int64_t) { return false; }
ExpertOrder sort_by_expert(const Tensor&, int64_t) { no_kernels(); }

// delta_rule.h
bool supports_delta_rule(const DeltaRuleRows&) { return false; }
Tensor delta_rule(const DeltaRuleRows&, const DeltaChunks&, const Tensor&, const Tensor&) { no_kernels(); }
DeltaRuleRows delta_rule_backward(const Tensor&, const DeltaRuleRows&, const DeltaChunks&) { no_kernels(); }

// delta_net.h
bool supports_conv_silu(const Tensor&, const Tensor&) { return false; }
Tensor conv_silu(const Tensor&, const Tensor&, const Tensor&) { no_kernels(); }
ConvGradients conv_silu_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool) { no_kernels(); }
bool supports_gated_norm(const Tensor&, const Tensor&, const Tensor&) { return false; }
Tensor gated_norm(const Tensor&, const Tensor&, const Tensor&, double) { no_kernels(); }
GatedNormGradients gated_norm_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&, double, bool) { no_kernels(); }
bool supports_delta_steps(const Tensor&, const DeltaStepShape&) { return false; }
bool supports_delta_step(const DeltaStep&) { return false; }
Tensor delta_step(const DeltaStep&) { no_kernels(); }

// float8.h
bool supports_float8_rows(const Tensor&) { return false; }
Float8Rows float8_rows(const Tensor&) { no_kernels(); }

// adam.h
bool supports_adam(const Tensor&) { return false; }
void adam_(const TensorList&, const TensorList&, const TensorList&, const TensorList&, const TensorList&, const AdamScalars&,
           const AdamStep&) {
  no_kernels();
}

// gradient_norm.h
bool supports_norm_of_all(const TensorList&) { return false; }
Tensor norm_of_all(const TensorList&) { no_kernels(); }

// training.h
bool supports_rows(const Tensor&) { return false; }
bool supports_rope(const Tensor&, const Tensor&) { return false; }
void rope_rows(const Tensor&, const Tensor&, const Tensor&, double, const Tensor&) { no_kernels(); }
void rope_parts(const TensorList&, const Tensor&, const Tensor&, double, const Tensor&) { no_kernels(); }
bool supports_gate_updates(const Tensor&, const Tensor&, int64_t) { return false; }
Tensor swiglu_with_updates(const Tensor&, const Tensor&, const GateUpdates&) { no_kernels(); }
bool supports_swiglu_update(const Tensor&, int64_t) { return false; }
void swiglu_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                     const LowRankUpdate&, const GateUpdates&) {
  no_kernels();
}
Dropped drop(const Tensor&, double) { no_kernels(); }
Tensor drop_again(const Tensor&, double, const Tensor&) { no_kernels(); }
void add_dropped_(const Tensor&, const Tensor&, double, const Tensor&) { no_kernels(); }
Tensor rounded_end_to_end(const TensorList&, const std::vector<double>&, at::ScalarType) { no_kernels(); }
bool supports_low_rank_add(const Tensor&, int64_t) { return false; }
void low_rank_add_(const Tensor&, const Tensor&, const Tensor&, bool) { no_kernels(); }
bool supports_dropped_add(const Tensor&, int64_t, int64_t) { return false; }
void add_dropped_updates_(const Tensor&, const Tensor&, const Tensor&, double, const TensorList&) { no_kernels(); }
bool supports_cross_entropy(const Tensor&, int64_t) { return false; }
void cross_entropy_rows(const Tensor&, const Tensor&, const Tensor&, double, bool, const Tensor&, const Tensor&) { no_kernels(); }

}  // namespace hone::ops::cuda
