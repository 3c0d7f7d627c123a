#include "hone/device/npu.h"

#include <dlfcn.h>
#include <torch/version.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "hone/base/error.h"
#include "hone/base/log.h"
#include "hone/device/libtorch.h"
#include "hone/device/npu/fallback.h"
#include "hone/device/npu/hccl.h"
#include "hone/device/npu/install.h"
#include "hone/device/npu/symbol.h"
#include "hone/device/npu/variables.h"
#include "hone/device/tensor.h"

namespace hone::device::npu {
namespace {

namespace fs = std::filesystem;

void* open_globally(const std::string& library, const std::string& what) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!handle) throw UserError(ExitCode::usage, fmt::format("{} could not be loaded: {}", what, ::dlerror()), kInstallHint);
  return handle;
}

// torch_npu asks a Python interpreter for the location of the torch package and for one function. This interpreter provides only
// those.
void start_python(const Install& install) {
  void* python = open_globally("libpython" + install.python + ".so.1.0", "Python " + install.python + "'s library");
  if (symbol<int (*)()>(python, "Py_IsInitialized")()) return;
  *symbol<int*>(python, "Py_NoSiteFlag") = 1;
  *symbol<int*>(python, "Py_IgnoreEnvironmentFlag") = 1;
  symbol<void (*)(int)>(python, "Py_InitializeEx")(0);
  auto torch_init = (fs::path(install.torch_npu).parent_path() / "torch/__init__.py").string();
  auto code = fmt::format(
      "import sys, types\n"
      "def module(name, **members):\n"
      "    sys.modules[name] = types.ModuleType(name)\n"
      "    vars(sys.modules[name]).update(members)\n"
      "module('torch', __file__=r'''{}''')\n"
      "module('torch_npu')\n"
      "module('torch_npu.npu', _lazy_init=lambda: None)\n",
      torch_init);
  if (symbol<int (*)(const char*)>(python, "PyRun_SimpleString")(code.c_str()) != 0)
    throw UserError(ExitCode::usage, "the embedded Python interpreter could not be prepared", kInstallHint);
  symbol<void* (*)()>(python, "PyEval_SaveThread")();  // torch_npu's threads take the lock when they need it
}

void check_installed(const Install& install) {
  if (install.torch_npu.empty())
    throw UserError(
        ExitCode::usage, "npu was requested, but torch_npu is not installed",
        fmt::format("pip install torch_npu=={}.{}.{}", TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, TORCH_VERSION_PATCH));
  if (!same_release(TORCH_VERSION, install.torch_npu_version))
    throw UserError(
        ExitCode::usage, fmt::format("torch_npu {} does not fit libtorch {}", install.torch_npu_version, TORCH_VERSION),
        fmt::format("pip install torch_npu=={}.{}.{}", TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, TORCH_VERSION_PATCH));
  if (libtorch_made_for_cuda())
    throw UserError(
        ExitCode::usage, "torch_npu does not support this libtorch, which is a CUDA build",
        fmt::format(
            "install torch {}'s build for CPUs (its version ends in +cpu) into the Python hone was built with, then make build",
            TORCH_VERSION));
  if (install.runtime.empty())
    throw UserError(ExitCode::usage, "npu was requested, but CANN's libascendcl.so is not on the library path",
                    install.toolkit.empty() ? "install CANN, or try the command on emulated cards: hone emulate-npu -- …"
                                            : fmt::format("source {}/set_env.sh", install.toolkit));
  if (!install.absent_nodes.empty() && !install.emulated)
    throw UserError(ExitCode::usage, fmt::format("{} is missing next to the cards", fmt::join(install.absent_nodes, ", ")),
                    "give the container these devices: hone docker-run prints the full command");
  if (!install.inaccessible_nodes.empty())
    throw UserError(ExitCode::usage, fmt::format("no permission to open {}", fmt::join(install.inaccessible_nodes, ", ")),
                    "add your user to the group HwHiAiUser, or give the container these devices");
}

// CANN parses the list up to the first invalid character without an error: "0-3" is card 0 alone.
void check_visible_list() {
  const auto text = visible_devices().value_or("");
  auto read = text.substr(0, text.find_first_not_of("0123456789,"));
  if (!read.empty() && read != text)
    throw UserError(ExitCode::usage, fmt::format("ASCEND_RT_VISIBLE_DEVICES={}: CANN reads no further than \"{}\"", text, read),
                    "name every card: ASCEND_RT_VISIBLE_DEVICES=0,1,2,3");
}

bool g_loaded = false;

}  // namespace

bool present() {
  auto install = find_installation();
  return !install.torch_npu.empty() && !install.runtime.empty() && (install.emulated || !install.cards.empty());
}

void load() {
  static std::once_flag once;
  std::call_once(once, [] {
    auto install = find_installation();
    check_installed(install);
    check_visible_list();
    if (int processes = std::atoi(variable("WORLD_SIZE").c_str()); processes > 1) check_hccl_environment(processes);
    // Tiling on the queue's thread lets the host run ahead.
    preset("TASK_QUEUE_ENABLE", "2");
    open_globally(install.runtime, "CANN's runtime");
    // torch_npu has two operator interfaces. Chips with bfloat16 always use the newer one, so the older need not be initialized;
    // for other chips CANN must be asked which it prefers, which is part of the initialization.
    preset("ACL_OP_INIT_MODE", computes_bfloat16() ? "1" : "0");
    start_python(install);
    open_globally((libtorch_folder() / "libtorch_python.so").string(), "libtorch_python");
    open_globally(install.torch_npu + "/lib/libtorch_npu.so", "torch_npu");
    count_fallbacks();
    g_loaded = true;
  });
}

bool loaded() { return g_loaded; }

void finalize() {
  try {
    void* control = symbol<void* (*)()>(RTLD_DEFAULT, "_ZN7c10_npu10NpuSysCtrl11GetInstanceEv")();
    if (!symbol<bool (*)(void*)>(RTLD_DEFAULT, "_ZN7c10_npu10NpuSysCtrl11GetInitFlagEv")(control)) return;
    symbol<bool (*)(bool)>(RTLD_DEFAULT, "_ZN7c10_npu20npuSynchronizeDeviceEb")(/*check_error=*/false);
    symbol<int (*)(void*)>(RTLD_DEFAULT, "_ZN7c10_npu10NpuSysCtrl8FinalizeEv")(control);
  } catch (const std::exception& cause) {
    log::warning("torch_npu could not be finalized: {}", cause.what());
  }
}

std::string soc() {
  auto name = reinterpret_cast<const char* (*)()>(::dlsym(RTLD_DEFAULT, "aclrtGetSocName"));
  const char* text = name ? name() : nullptr;
  return text ? text : "";
}

std::string with_card_error(std::string text) {
  auto synchronize = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "aclrtSynchronizeDevice"));
  if (!g_loaded || !synchronize || text.find("Inner error") == text.npos) return text;
  int code = synchronize();
  return code == 0 ? text : fmt::format("{}, error code is {}", text, code);
}

bool computes_bfloat16() {
  auto name = soc();
  bool first_generation = name.starts_with("Ascend910A") || name == "Ascend910B" || name.starts_with("Ascend910Pro") ||
                          name.starts_with("Ascend910Premium") || name.starts_with("Ascend310");
  return !first_generation;
}

CardMemory card_memory() {
  constexpr int kDeviceMemory = 1;  // ACL_HBM_MEM
  auto ask = reinterpret_cast<int (*)(int, size_t*, size_t*)>(::dlsym(RTLD_DEFAULT, "aclrtGetMemInfo"));
  size_t free = 0, total = 0;
  if (!ask || ask(kDeviceMemory, &free, &total) != 0) return {};
  return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
}

}  // namespace hone::device::npu
