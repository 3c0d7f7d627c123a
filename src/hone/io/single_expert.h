// The name of one expert's layer in files that store experts one by one: of weights in checkpoints, and of pairs in adapters.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hone::io {

struct SingleExpert {
  std::string block;  // "model.layers.0.mlp"
  int64_t expert;
  std::string kind;  // "gate_proj"
};

// Of "model.layers.0.mlp.experts.3.gate_proj"; nothing for names of another form.
std::optional<SingleExpert> parse_single_expert(std::string_view module);

}  // namespace hone::io
