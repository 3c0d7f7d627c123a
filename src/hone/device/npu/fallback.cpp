#include "hone/device/npu/fallback.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/CPUFallback.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/library.h>

#include <mutex>

#include "hone/base/log.h"

namespace hone::device::npu {
namespace {

std::mutex g_fallback_mutex;
std::map<std::string, long> g_fallback_counts;

// Emulated cards include it in their report.
void tell_emulator(const std::string& name) {
  static const auto kTell = reinterpret_cast<void (*)(const char*)>(::dlsym(RTLD_DEFAULT, "hone_emulator_fell_back"));
  if (kTell) kTell(name.c_str());
}

// op-plugin computes a singular value decomposition into copies and returns its own tensor of right vectors unwritten if it is
// column-major, as it always is here.
bool is_faulty(const std::string& name) { return name.starts_with("aten::_linalg_svd"); }

void counted_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto name = toString(op.operator_name());
  long count = 0;
  {
    std::lock_guard lock(g_fallback_mutex);
    count = ++g_fallback_counts[name];
  }
  if (count == 1)
    log::warn_once(fmt::format("torch_npu has no {} for {}: it runs on the CPU, with copies both ways",
                               is_faulty(name) ? "right kernel" : "kernel", name));
  tell_emulator(name);
  at::native::cpu_fallback(op, stack);
}

bool falls_back(const c10::OperatorHandle& op) {
  using enum c10::DispatchKey;
  for (auto key : {PrivateUse1, CompositeExplicitAutograd, CompositeExplicitAutogradNonFunctional, CompositeImplicitAutograd})
    if (op.hasKernelForDispatchKey(key)) return false;
  return op.hasKernelForDispatchKey(CPU);
}

c10::WarningHandler& ignored_warnings() {
  struct Ignoring : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  };
  static Ignoring kIgnoring;
  return kIgnoring;
}

}  // namespace

void count_fallbacks() {
  c10::WarningUtils::WarningHandlerGuard quiet(&ignored_warnings());  // libtorch warns when a kernel is replaced
  // Never destroyed: at exit torch_npu may be destroyed first.
  static auto& kLibrary = *new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    auto op = name.name.starts_with("aten::") ? dispatcher.findOp(name) : std::nullopt;
    if (!op || !op->hasSchema() || !(falls_back(*op) || is_faulty(toString(name)))) continue;
    auto own = toString(name).substr(6);
    kLibrary.impl(own.c_str(), torch::CppFunction::makeFromBoxedFunction<&counted_fallback>());
  }
}

std::map<std::string, long> fallbacks() {
  std::lock_guard lock(g_fallback_mutex);
  return g_fallback_counts;
}

std::string fallback_summary() {
  std::string out;
  for (const auto& [name, count] : fallbacks()) out += fmt::format("{}{} {} times", out.empty() ? "" : ", ", name, count);
  return out.empty() ? out : "computed on the CPU instead of the NPU: " + out;
}

}  // namespace hone::device::npu
