#include "hone/model/memory/delta_net_memory.h"

#include "hone/ops/linear_attention/linear_attention_metadata.h"

namespace hone::model {
namespace {

constexpr auto kChunkPositions = static_cast<double>(ops::kDeltaRuleChunk);

}  // namespace

DeltaNetActivations delta_net_activations(const LinearAttentionConfig& net) {
  const auto keys = static_cast<double>(net.keys_width()), values = static_cast<double>(net.values_width()),
             heads = static_cast<double>(net.value_heads), key_dim = static_cast<double>(net.key_dim),
             value_dim = static_cast<double>(net.value_dim);
  const double of_head = 4 * (key_dim + value_dim) + key_dim * value_dim / kChunkPositions + 5 * kChunkPositions;
  return {.of_model = 3 * static_cast<double>(net.conv_channels()) + 3 * values,
          .of_float32 = 4 * keys + 2 * values + heads * of_head};
}

double delta_rule_products(const LinearAttentionConfig& net) {
  const auto key_dim = static_cast<double>(net.key_dim), value_dim = static_cast<double>(net.value_dim);
  return static_cast<double>(net.value_heads) * (3 * key_dim * value_dim + kChunkPositions * (2.5 * key_dim + 1.5 * value_dim));
}

int64_t delta_net_bytes_per_token(const DecoderConfig& config) {
  return config.linear_attention ? static_cast<int64_t>(delta_net_activations(*config.linear_attention).bytes(2)) : 0;
}

int64_t delta_net_bytes_per_sequence(const DecoderConfig& config) {
  if (!config.linear_attention) return 0;
  const auto& net = *config.linear_attention;
  return ops::kDeltaRuleChunk / 2 * delta_net_bytes_per_token(config) +
         2 * net.value_heads * net.key_dim * net.value_dim * static_cast<int64_t>(sizeof(float));
}

}  // namespace hone::model
