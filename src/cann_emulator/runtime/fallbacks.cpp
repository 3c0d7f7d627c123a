#include "cann_emulator/runtime/fallbacks.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <string>
#include <unordered_map>

#include "cann_emulator/machine/report.h"

namespace cann {
namespace {

bool has_no_kernel(const c10::OperatorName& name) {
  using enum c10::DispatchKey;
  auto op = c10::Dispatcher::singleton().findOp(name);
  if (!op) return false;
  auto has = [&](c10::DispatchKey key) { return op->hasKernelForDispatchKey(key); };
  bool elsewhere = has(PrivateUse1) || has(CompositeExplicitAutograd) || has(CompositeExplicitAutogradNonFunctional) ||
                   has(CompositeImplicitAutograd);
  return !elsewhere && has(CPU);
}

bool on_npu(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().defined() && value.toTensor().is_privateuseone();
  if (!value.isTensorList()) return false;
  auto list = value.toTensorList();
  return std::any_of(list.begin(), list.end(), [](const at::Tensor& tensor) { return tensor.is_privateuseone(); });
}

std::unique_ptr<at::ObserverContext> record_fallback(const at::RecordFunction& call) {
  static thread_local std::unordered_map<std::string, bool> known;
  auto name = call.operator_name();
  if (!name) return nullptr;
  auto text = c10::toString(*name);
  auto found = known.find(text);
  if (found == known.end()) found = known.emplace(text, has_no_kernel(*name)).first;
  auto inputs = call.inputs();
  if (found->second && std::any_of(inputs.begin(), inputs.end(), on_npu)) report::fell_back(text);
  return nullptr;
}

}  // namespace

void watch_fallbacks() {
  at::addGlobalCallback(at::RecordFunctionCallback(record_fallback).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

}  // namespace cann

// hone replaces torch_npu's CPU fallback by a counting one and reports its counts here.
extern "C" __attribute__((visibility("default"))) void hone_emulator_fell_back(const char* op) { cann::report::fell_back(op); }
