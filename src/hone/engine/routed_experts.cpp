#include "hone/engine/routed_experts.h"

#include <algorithm>

#include "hone/ops/moe/moe.h"

namespace hone::engine {
namespace {

int64_t choices_per_token(const model::DecoderConfig& config) {
  return std::ranges::count(config.experts.in_layer, true) * config.experts.num_experts_per_tok;
}

}  // namespace

int64_t RoutedExperts::bytes_per_token(const model::DecoderConfig& config) {
  return choices_per_token(config) * static_cast<int64_t>(sizeof(int16_t));
}

RoutedExperts::RoutedExperts(const model::DecoderConfig& config, int64_t blocks, int64_t block_size)
    : per_token_(config.experts.num_experts_per_tok),
      block_size_(block_size),
      experts_sc_(at::empty({blocks * block_size, choices_per_token(config)}, at::TensorOptions(at::kShort))) {}

void RoutedExperts::store(const TensorList& router_logits, const Tensor& slot_mapping_t) {
  const auto routed_tlk = ops::routed_experts(router_logits, per_token_).to(at::kCPU, at::kShort);
  experts_sc_.index_copy_(0, slot_mapping_t.to(at::kCPU, at::kLong), routed_tlk.flatten(1));
}

std::vector<int16_t> RoutedExperts::read(const Sequence& sequence) const {
  const int64_t columns = experts_sc_.size(1), tokens = sequence.num_computed_tokens;
  std::vector<int16_t> result(static_cast<size_t>(tokens * columns));
  const auto* experts = experts_sc_.const_data_ptr<int16_t>();
  for (int64_t begin = 0; begin < tokens; begin += block_size_) {
    const auto* block = experts + sequence.blocks[static_cast<size_t>(begin / block_size_)] * block_size_ * columns;
    std::copy_n(block, std::min(block_size_, tokens - begin) * columns, result.begin() + begin * columns);
  }
  return result;
}

}  // namespace hone::engine
