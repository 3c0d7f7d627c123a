#include "hone/ops/linear/multi_lora.h"

#include "hone/ops/linear/matmul.h"

namespace hone::ops {

void add_multi_lora(Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const std::vector<LoraWeights>& adapters, const LoraMapping& rows) {
  for (const auto& range : rows) {
    auto found = std::ranges::find(adapters, range.adapter, &LoraWeights::adapter);
    if (found == adapters.end()) continue;
    auto part_x = x.narrow(0, range.begin, range.end - range.begin), part_y = y.narrow(0, range.begin, range.end - range.begin);
    if (found->magnitude.defined()) {  // DoRA scales the base output too
      auto alone = *found;
      alone.active = true;
      part_y.copy_(lora_linear_plain(part_x, weight, bias, {alone}, false));
    } else {
      auto update = matmul_nt(matmul_nt(part_x.to(found->a.scalar_type()), found->a), found->b);
      part_y.add_(update.mul_(found->scale));
    }
  }
}

}  // namespace hone::ops
