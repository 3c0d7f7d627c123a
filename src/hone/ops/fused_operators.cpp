#include "hone/ops/fused_operators.h"

namespace hone::ops {

FusedOperators& fused_operators() {
  static FusedOperators all;
  return all;
}

}  // namespace hone::ops
