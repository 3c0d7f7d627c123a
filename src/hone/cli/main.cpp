// hone, swift, llamafactory-cli, lmf, accelerate: one program, the name it is called by decides.
#include <unistd.h>

#include <cstring>
#include <vector>

#include "hone/cli/run.h"

namespace {

// OpenMP threads that spin while they wait cost eight times the work's own time as soon as anything else uses the cores. libgomp reads
// its settings when it is loaded, before main; this runs before that and starts the program anew with a short spin, unless the person set one.
void wait_politely(int, char** words, char** environment) {
  std::vector<char*> settings;
  for (char** entry = environment; *entry; ++entry) {
    if (!std::strncmp(*entry, "OMP_WAIT_POLICY=", 16) || !std::strncmp(*entry, "GOMP_SPINCOUNT=", 15)) return;
    settings.push_back(*entry);
  }
  static char kShortSpin[] = "GOMP_SPINCOUNT=2000";
  settings.push_back(kShortSpin);
  settings.push_back(nullptr);
  ::execve("/proc/self/exe", words, settings.data());
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const run_first)(int, char**, char**) = wait_politely;

}  // namespace

int main(int count, char** words) { return hone::cli::run_program(words[0], {words + 1, words + count}); }
