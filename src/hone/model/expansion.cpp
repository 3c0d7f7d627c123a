#include "hone/model/expansion.h"

#include "hone/base/error.h"
#include "hone/model/decoder.h"

namespace hone::model {
namespace {

void number(Block& block, int64_t layer, const std::string& name) {
  block.module().rename(block.name, name);
  block.name = name;
  block.layer = layer;
}

// New tensors over the same memory: training later gives them their own.
Block silent_copy(const Block& block) {
  Block copy = block;
  for (auto& parameter : copy.module().parameters()) *parameter.value = parameter.value->detach();
  for (auto* last : {&copy.attention.o, copy.mlp ? &copy.mlp->down : nullptr}) {
    if (!last) continue;
    last->weight = at::zeros_like(last->weight);
    if (last->bias.defined()) last->bias = at::zeros_like(last->bias);
  }
  if (copy.moe) copy.moe->down.weight = at::zeros_like(copy.moe->down.weight);
  return copy;
}

}  // namespace

void expand_blocks(Decoder& decoder, int64_t stride) {
  at::NoGradGuard no_grad;
  std::vector<Block> blocks;
  auto& windows = decoder.config.sliding_windows;
  auto& sparse = decoder.config.experts.in_layer;
  decltype(decoder.config.sliding_windows) new_windows;
  std::vector<bool> new_sparse;
  for (size_t i = 0; i < decoder.blocks.size(); ++i) {
    const bool doubled = (static_cast<int64_t>(i) + 1) % stride == 0;
    blocks.push_back(decoder.blocks[i]);
    if (doubled) blocks.push_back(silent_copy(decoder.blocks[i]));
    new_windows.insert(new_windows.end(), doubled ? 2 : 1, windows[i]);
    if (!sparse.empty()) new_sparse.insert(new_sparse.end(), doubled ? 2 : 1, sparse[i]);
  }
  for (int64_t layer = 0, moe_layers = 0; auto& block : blocks) {
    number(block, layer, decoder.config.names.block(layer));
    if (block.moe) block.moe->moe_layer = moe_layers++;
    ++layer;
  }
  decoder.blocks = std::move(blocks);
  windows = std::move(new_windows);
  sparse = std::move(new_sparse);
  decoder.config.layers = static_cast<int64_t>(decoder.blocks.size());
}

Json expanded_config(const Json& config, int64_t stride) {
  const auto layers = config.at("num_hidden_layers").get<int64_t>();
  Json changes{{"num_hidden_layers", layers + layers / stride}};
  for (const char* unlike : {"decoder_sparse_step", "mlp_only_layers"})
    if (auto found = config.find(unlike);
        found != config.end() && *found != Json(1) && *found != Json::array() && !found->is_null())
      throw UserError(ExitCode::usage,
                      fmt::format("blocks cannot be inserted into a model with different kinds of layers (\"{}\" is {})", unlike,
                                  found->dump()),
                      "use another way of tuning");
  if (!config.contains("layer_types") || !config["layer_types"].is_array()) return changes;
  Json types = Json::array();
  int64_t seen = 0;
  for (const auto& type : config["layer_types"]) {
    types.push_back(type);
    if (++seen % stride == 0) types.push_back(type);
  }
  changes["layer_types"] = types;
  return changes;
}

}  // namespace hone::model
