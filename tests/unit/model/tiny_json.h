// config.json of a decoder small enough for unit tests; `changes` replace or add fields. Fields of experts are read by those that
// have any.
#pragma once
#include <string>

#include "hone/base/json.h"

namespace hone::model {

inline Json tiny_json(const std::string& architecture, const Json& changes = Json::object()) {
  Json json{{"architectures", {architecture}},
            {"vocab_size", 50},
            {"hidden_size", 32},
            {"intermediate_size", 48},
            {"num_hidden_layers", 2},
            {"num_attention_heads", 4},
            {"num_key_value_heads", 2},
            {"tie_word_embeddings", true},
            {"num_local_experts", 4},
            {"num_experts_per_tok", 2},
            {"moe_intermediate_size", 24},
            {"shared_expert_intermediate_size", 40},
            {"full_attention_interval", 2},  // of models whose other layers have linear attention
            {"linear_num_key_heads", 2},
            {"linear_num_value_heads", 4},
            {"linear_key_head_dim", 8},
            {"linear_value_head_dim", 8}};
  json.update(changes);
  return json;
}

}  // namespace hone::model
