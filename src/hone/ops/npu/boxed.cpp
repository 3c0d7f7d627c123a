#include "hone/ops/npu/boxed.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <map>
#include <mutex>
#include <optional>

#include "hone/base/error.h"
#include "hone/base/log.h"
#include "hone/device/npu.h"

namespace hone::ops::npu {
namespace {

std::optional<c10::OperatorHandle> find(std::string_view name) {
  static std::mutex mutex;
  static std::map<std::string, std::optional<c10::OperatorHandle>, std::less<>> known;
  std::lock_guard lock(mutex);
  auto found = known.find(name);
  if (found == known.end())
    found = known.emplace(name, c10::Dispatcher::singleton().findSchema({"npu::" + std::string(name), ""})).first;
  return found->second;
}

c10::IValue value_of(const c10::Argument& argument, const Arguments& given, std::string_view name) {
  for (const auto& [key, value] : given.named)
    if (argument.name() == key) return value;
  if (argument.default_value()) return *argument.default_value();
  HONE_CHECK(argument.type()->kind() == c10::TypeKind::OptionalType, "npu::{} needs its argument {}", name, argument.name());
  return {};
}

}  // namespace

bool has(std::string_view name) { return find(name).has_value(); }

namespace {

torch::jit::Stack called(std::string_view name, const Arguments& given) {
  auto op = find(name);
  HONE_CHECK(op, "npu::{} is not registered", name);
  const auto& arguments = op->schema().arguments();
  torch::jit::Stack stack(given.leading);
  for (size_t i = stack.size(); i < arguments.size(); ++i) stack.push_back(value_of(arguments[i], given, name));
  op->callBoxed(stack);
  return stack;
}

}  // namespace

Tensor call(std::string_view name, const Arguments& given) { return called(name, given)[0].toTensor(); }

TensorList call_for_all(std::string_view name, const Arguments& given) {
  TensorList out;
  for (auto& value : called(name, given)) {
    if (value.isTensorList())
      for (const auto& tensor : value.toTensorVector()) out.push_back(tensor);
    if (value.isTensor()) out.push_back(value.toTensor());
  }
  return out;
}

Fusion& fusion() {
  static Fusion kFusion;
  return kFusion;
}

bool supports(const Tensor& x, std::string_view name) {
  if (!x.is_privateuseone()) return false;
  bool wanted = name.find("attention") != name.npos ? fusion().attention : fusion().blocks;
  // Chips without bfloat16 are the first generation; the fused kernels require later ones.
  static const bool kFirstGeneration = !device::npu::computes_bfloat16();
  if (!wanted || kFirstGeneration) return false;
  if (has(name)) return true;
  log::warn_once(fmt::format("this torch_npu has no {}: a composition of plain operators takes its place", name));
  return false;
}

std::vector<OperatorState> operator_states() {
  static constexpr std::pair<const char*, const char*> kKnown[] = {
      {"npu_fusion_attention", "attention over packed sequences"},
      {"npu_fused_infer_attention_score", "attention over a paged cache"},
      {"npu_rms_norm", "norm"},
      {"npu_rotary_mul", "rotary position embedding"},
      {"npu_swiglu", "gated activation"},
      {"npu_swiglu_backward", "gated activation, gradient"},
      {"npu_cross_entropy_loss", "loss"},
      {"npu_top_k_top_p", "sampling"},
      {"npu_moe_token_permute", "tokens to their experts"},
      {"npu_moe_token_unpermute", "tokens back from their experts"},
      {"npu_grouped_matmul", "the experts' products"},
  };
  std::vector<OperatorState> out;
  for (auto [name, use] : kKnown) out.push_back({name, use, has(name)});
  bool adam = c10::Dispatcher::singleton()
                  .findSchemaOrThrow("aten::_fused_adamw_", "")
                  .hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1);
  out.push_back({"_fused_adamw_", "optimizer", adam});
  return out;
}

}  // namespace hone::ops::npu
