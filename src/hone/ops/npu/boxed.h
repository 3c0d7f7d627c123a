// torch_npu's fused operators by name. Their schemas grow from release to release and leading arguments change their names, so a
// call gives those by position, names the others, and takes the rest from the schema that is registered: one binary serves every
// torch_npu of its libtorch.
#pragma once
#include <ATen/core/ivalue.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hone/device/tensor.h"

namespace hone::ops::npu {

struct Arguments {
  std::vector<c10::IValue> leading;
  std::vector<std::pair<std::string_view, c10::IValue>> named = {};
};

bool has(std::string_view name);  // whether npu::`name` is registered

// Calls npu::`name` through the dispatcher, gradients included; returns its first result, or the tensors it begins with.
Tensor call(std::string_view name, const Arguments& given);
TensorList call_for_all(std::string_view name, const Arguments& given);

// Fused operators are used where they serve, unless a person says no (--enable_npu_model_patch false, --attn_impl eager).
struct Fusion {
  bool blocks = true;  // norms, rotary embedding, gated activation
  bool attention = true;
};
Fusion& fusion();

// Whether x is on an NPU and npu::`name` should compute on it.
bool serves(const Tensor& x, std::string_view name);

// For `hone doctor`: each fused operator hone uses, and whether this torch_npu has it.
struct OperatorState {
  std::string name, use;
  bool live;
};
std::vector<OperatorState> operator_states();

}  // namespace hone::ops::npu
