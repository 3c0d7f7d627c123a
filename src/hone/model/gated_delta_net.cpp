#include "hone/model/gated_delta_net.h"

#include "hone/ops/linear_attention/delta_net_mix.h"

namespace hone::model {

GatedDeltaNet gated_delta_net_skeleton(const DecoderConfig& config, const std::string& prefix) {
  const auto& shape = *config.linear_attention;
  const auto name = prefix + config.names.linear_attention;
  auto linear = [&](const char* own, int64_t in, int64_t out) { return Linear{name + "." + own, meta_tensor({out, in})}; };
  GatedDeltaNet net{.name = name};
  const int64_t values = shape.values_width(), channels = shape.conv_channels(), heads = shape.value_heads;
  if (shape.projections == DeltaNetProjections::grouped)
    net.projections = {linear("in_proj_qkvz", config.hidden_size, channels + values),
                       linear("in_proj_ba", config.hidden_size, 2 * heads)};
  else
    net.projections = {linear("in_proj_qkv", config.hidden_size, channels), linear("in_proj_z", config.hidden_size, values),
                       linear("in_proj_b", config.hidden_size, heads), linear("in_proj_a", config.hidden_size, heads)};
  net.conv = {name + ".conv1d.weight", meta_tensor({channels, 1, shape.conv_kernel})};
  net.dt_bias = {name + ".dt_bias", meta_tensor({heads})};
  net.a_log = {name + ".A_log", meta_tensor({heads})};
  net.norm = {name + ".norm", meta_tensor({shape.value_dim}), config.norm_eps};
  net.out = linear("out_proj", values, config.hidden_size);
  net.key_heads = shape.key_heads, net.value_heads = heads, net.key_dim = shape.key_dim, net.value_dim = shape.value_dim;
  return net;
}

// In the order of transformers' parameters.
Module GatedDeltaNet::module() {
  Module group{.path = name};
  for (auto* parameter : {&dt_bias, &a_log, &conv}) group.children.push_back(module_of(*parameter));
  const bool is_grouped = projections.size() == 2;
  auto add_projections = [&] {
    for (auto& layer : projections) group.children.push_back(module_of(layer));
  };
  if (is_grouped) add_projections();
  group.children.push_back(module_of(norm));
  group.children.push_back(module_of(out));
  if (!is_grouped) add_projections();
  return group;
}

GatedDeltaNet::Projected GatedDeltaNet::project(const Tensor& x_th, const LinearContext& mode) const {
  const int64_t rows = x_th.size(0);
  if (projections.size() == 4)
    return {projections[0](x_th, mode), projections[1](x_th, mode).view({rows, value_heads, value_dim}),
            projections[2](x_th, mode), projections[3](x_th, mode)};
  // Each key head's query and key, then the values and the gates of its value heads.
  const int64_t shared = value_heads / key_heads, values = shared * value_dim;
  const auto qkvz =
      projections[0](x_th, mode).view({rows, key_heads, -1}).split_with_sizes({key_dim, key_dim, values, values}, 2);
  const auto ba = projections[1](x_th, mode).view({rows, key_heads, 2 * shared}).split(shared, 2);
  auto joined = [&](const Tensor& part) { return part.reshape({rows, -1}); };
  return {at::cat({joined(qkvz[0]), joined(qkvz[1]), joined(qkvz[2])}, 1), qkvz[3].reshape({rows, value_heads, value_dim}),
          joined(ba[0]), joined(ba[1])};
}

Tensor GatedDeltaNet::mix(const Tensor& x_th, const LinearContext& mode, const ops::LinearAttentionMetadata& metadata,
                          const ops::StateSlots* states) const {
  const auto [qkv_tc, z_thv, b_th, a_th] = project(x_th, mode);
  return ops::delta_net_mix({qkv_tc, z_thv, b_th, a_th},
                            {.conv = conv.weight,
                             .dt_bias = dt_bias.weight,
                             .a_log = a_log.weight,
                             .norm = norm.weight,
                             .eps = norm.eps,
                             .key_heads = key_heads,
                             .key_dim = key_dim},
                            metadata, states);
}

Tensor initial_delta_net_value(const std::string& parameter, at::IntArrayRef sizes, const DecoderConfig& config,
                               const at::Generator& generator) {
  const auto is = [&](const char* own) { return parameter.ends_with("." + config.names.linear_attention + "." + own); };
  if (is("A_log")) return at::empty(sizes, at::TensorOptions(at::kFloat)).uniform_(0.01, 16, generator).log_();
  return is("dt_bias") || is("norm.weight") ? at::ones(sizes, at::TensorOptions(at::kFloat)) : Tensor();
}

}  // namespace hone::model
