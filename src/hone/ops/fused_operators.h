// Which operators take their fused paths. All do, unless a person switches one off to compare or to find a fault.
#pragma once

namespace hone::ops {

struct FusedOperators {
  bool rms_norm = true, rope = true, swiglu = true;
  bool cross_entropy = true;         // of logits that exist as one
  bool linear_cross_entropy = true;  // logits exist a few rows at a time
};

// Of the whole process; set before models compute.
FusedOperators& fused_operators();

}  // namespace hone::ops
