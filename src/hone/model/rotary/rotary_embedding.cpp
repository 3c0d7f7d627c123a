#include "hone/model/rotary/rotary_embedding.h"

namespace hone::model {
namespace {

ops::RopeTable table_on(const ops::RopeTable& table, at::Device device) { return {table.cos.to(device), table.sin.to(device)}; }

void move_frequencies(RopeFrequencies& frequencies, at::Device device) {
  frequencies.inverse = frequencies.inverse.to(device);
  if (frequencies.axes.defined()) frequencies.axes = frequencies.axes.to(device);
}

// Dynamic scaling depends on each sequence's own length, regardless of packing.
ops::RopeTable dynamic_table(const ForwardInput& input, const DecoderConfig& config) {
  TensorList cos, sin;
  for (int64_t i = 0; i < input.segments.count(); ++i) {
    auto positions_t = input.positions_t.narrow(-1, input.segments.offsets[static_cast<size_t>(i)], input.segments.length(i));
    int64_t length = positions_t.numel() ? positions_t.max().item<int64_t>() + 1 : 0;
    auto table = rope_table(positions_t, rope_frequencies(config.rope, config, length));
    cos.push_back(table.cos), sin.push_back(table.sin);
  }
  return {at::cat(cos), at::cat(sin)};
}

}  // namespace

RotaryTables RotaryTables::to(at::Device device) const {
  return {table_on(global, device), local.cos.defined() ? table_on(local, device) : ops::RopeTable()};
}

RotaryEmbedding::RotaryEmbedding(const DecoderConfig& config)
    : config_(config), global_(rope_frequencies(config.rope, config, 0)) {
  if (config.window_rope) local_ = rope_frequencies(*config.window_rope, config, 0);
}

void RotaryEmbedding::to(at::Device device) {
  if (global_.inverse.device() == device) return;
  move_frequencies(global_, device);
  if (local_) move_frequencies(*local_, device);
}

RotaryTables RotaryEmbedding::tables(const ForwardInput& input) const {
  RotaryTables tables{config_.rope.kind == RopeKind::dynamic ? dynamic_table(input, config_)
                                                             : rope_table(input.positions_t, global_)};
  if (local_) tables.local = rope_table(input.positions_t, *local_);
  return tables;
}

}  // namespace hone::model
