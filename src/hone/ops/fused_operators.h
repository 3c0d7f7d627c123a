// Enables fused operators. All are enabled unless a user disables one for comparison or debugging.
#pragma once

namespace hone::ops {

struct FusedOperators {
  bool rms_norm = true, rope = true, swiglu = true;
  bool cross_entropy = true;         // of logits that exist as one
  bool linear_cross_entropy = true;  // logits exist a few rows at a time
};

// Process-wide; set before models compute.
FusedOperators& fused_operators();

}  // namespace hone::ops
