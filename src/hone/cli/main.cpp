// hone, swift, llamafactory-cli, lmf, accelerate: one program; the name it is called by selects the front end.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "hone/cli/run.h"
#include "hone/device/npu.h"

namespace {

// Spinning OpenMP threads cost eight times the time of the work itself once anything else uses the cores. libgomp reads this when
// it is loaded, before main.
constexpr char kSpinning[] = "GOMP_SPINCOUNT=2000";

// Adds kSpinning to the environment unless the user has chosen. The array cannot grow before libc has started: kSpinning takes
// the place of `_`, in which shells leave the path of a command. Without such an entry the program starts again with a larger
// array.
void limit_spinning(int, char** words, char** environment) {
  char** replaceable = nullptr;
  std::vector<char*> all;
  for (char** entry = environment; *entry; ++entry) {
    std::string_view text = *entry;
    if (text.starts_with("GOMP_SPINCOUNT=") || text.starts_with("OMP_WAIT_POLICY=")) return;
    if (text.starts_with("_=")) replaceable = entry;
    all.push_back(*entry);
  }
  auto* spinning = const_cast<char*>(kSpinning);  // it is not modified
  if (replaceable) {
    *replaceable = spinning;
    return;
  }
  all.insert(all.end(), {spinning, nullptr});
  ::execve("/proc/self/exe", words, all.data());
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const run_first)(int, char**, char**) = limit_spinning;

}  // namespace

int main(int count, char** words) {
  // oneDNN caches code for the last 1,024 shapes, twice, up to 0.7 MB each. Both are read on first use.
  ::setenv("LRU_CACHE_CAPACITY", "64", /*overwrite=*/0);
  ::setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64", /*overwrite=*/0);
  int code = hone::cli::run_program(words[0], {words + 1, words + count});
  if (code == 0 && hone::device::npu::loaded()) {
    hone::device::npu::finalize();
    return code;
  }
  // No destructors: those of libtorch unregister every operator, which takes a third of the time of a short command, and those of
  // torch_npu may wait for a card that failed.
  std::fflush(nullptr);
  ::_exit(code);
}
