// torch_npu's fused operators by name. Their schemas grow between releases and leading arguments are renamed, so a call passes
// those by position, names the others, and takes the rest from the registered schema: one binary supports every torch_npu of its
// libtorch.
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

// Calls npu::`name` through the dispatcher, with gradients; returns its first result, or its leading tensors.
Tensor call(std::string_view name, const Arguments& given);
TensorList call_for_all(std::string_view name, const Arguments& given);

// Fused operators are used where supported, unless disabled (--enable_npu_model_patch false, --attn_impl eager).
struct Fusion {
  bool blocks = true;  // norms, rotary embedding, gated activation
  bool attention = true;
};
Fusion& fusion();

// Whether x is on an NPU and npu::`name` should compute on it.
bool supports(const Tensor& x, std::string_view name);

// For `hone doctor`: each fused operator hone uses, and whether this torch_npu has it.
struct OperatorState {
  std::string name, use;
  bool live;
};
std::vector<OperatorState> operator_states();

}  // namespace hone::ops::npu
