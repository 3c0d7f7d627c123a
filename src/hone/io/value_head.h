// value_head.safetensors: the value head that LLaMA-Factory (and trl) store next to a model's or an adapter's weights.
#pragma once
#include "hone/io/safetensors.h"

namespace hone::io {

inline constexpr const char* kValueHeadFile = "value_head.safetensors";
inline constexpr const char* kValueHead = "v_head.summary";  // its parameters are .weight [1, hidden] and .bias [1]

inline bool is_of_value_head(std::string_view parameter) { return parameter.starts_with("v_head."); }
inline bool holds_value_head(const fs::path& folder) { return fs::is_regular_file(folder / kValueHeadFile); }

struct ValueHead {
  Tensor weight, bias;
};
// Throws UserError(bad_checkpoint) for a file that does not match a model of this width.
ValueHead read_value_head(const fs::path& folder, int64_t hidden);

}  // namespace hone::io
