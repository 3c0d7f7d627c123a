// Runs any command on emulated Ascend cards: hone emulate-npu -- swift sft …, or -- python train.py with torch_npu. The cards are
// those of src/cann_emulator; HONE_EMULATED_NPUS, _SOC, _HBM, _REPORT and _FAULT configure them and inject faults.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include "hone/base/error.h"
#include "hone/base/file.h"
#include "hone/cli/commands.h"
#include "hone/cli/parsing/environment.h"
#include "hone/device/npu/install.h"

namespace hone::cli {
namespace {

fs::path emulator_folder() {
  auto bin = fs::read_symlink("/proc/self/exe").parent_path();
  for (const auto& place : {bin.parent_path() / "lib/cann", bin.parent_path() / "lib/hone/cann"})
    if (fs::exists(place / "libascendcl.so")) return place;
  throw UserError(ExitCode::usage, "the emulated CANN is not built", "ninja -C build cann_emulator");
}

void put_first(const char* variable, const std::string& folder) {
  const char* old = std::getenv(variable);
  ::setenv(variable, (old && *old ? folder + ":" + old : folder).c_str(), 1);
}

void default_to(const char* variable, const std::string& value) { ::setenv(variable, value.c_str(), 0); }

// A file shared by all processes of the command that records their memory use per card. Removed when the command ends.
class SharedState {
 public:
  SharedState() {
    char path[] = "/tmp/hone-npu-XXXXXX";
    int file = ::mkstemp(path);
    if (file < 0) throw UserError(ExitCode::failure, fmt::format("cannot make a file in /tmp: {}", std::strerror(errno)));
    ::close(file);
    path_ = path;
    ::setenv("HONE_EMULATED_STATE", path, 1);
  }
  ~SharedState() { ::unlink(path_.c_str()); }
  SharedState(const SharedState&) = delete;
  SharedState& operator=(const SharedState&) = delete;

 private:
  std::string path_;
};

void put_emulator_in_place() {
  auto folder = emulator_folder();
  put_first("LD_LIBRARY_PATH", folder);
  put_first("PATH", folder / "bin");
  default_to("ASCEND_HOME_PATH", folder / "home");
  default_to("ASCEND_OPP_PATH", folder / "home/opp");
  default_to("HONE_ASCEND_ROOT", folder / "home");
  default_to("HONE_EMULATED_NPUS", "8");
  auto install = device::npu::find_installation();
  if (!install.torch_npu.empty()) put_first("PYTHONPATH", fs::path(install.torch_npu).parent_path());
}

volatile pid_t g_child = 0;

int run(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = ::fork();
  if (child == 0) {
    ::execvp(arguments[0], arguments.data());
    fmt::print(stderr, "error: {}: {}\n", words[0], std::strerror(errno));
    ::_exit(127);
  }
  g_child = child;
  // Forwards signals to the command; Ctrl-C reaches it directly.
  std::signal(SIGTERM, [](int number) { ::kill(g_child, number); });
  std::signal(SIGINT, SIG_IGN);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int emulate_npu_command(const Options& options) {
  auto words = options.positional();
  if (words.empty()) throw UserError(ExitCode::usage, "no command to run", "hone emulate-npu -- swift sft …");
  check_emulated_machine();
  SharedState state;
  put_emulator_in_place();
  return run(words);
}

}  // namespace hone::cli
