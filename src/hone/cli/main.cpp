// hone, swift, llamafactory-cli, lmf, accelerate: one program; the name it is called by selects the front end.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "hone/cli/run.h"

namespace {

// Settings that libraries read before main or on first use. Spinning OpenMP threads cost eight times the time of the work itself
// once anything else uses the cores. oneDNN caches code for the last 1,024 shapes, twice, up to 0.7 MB each.
struct Setting {
  const char *entry, *also;  // another name of the same setting
};
constexpr Setting kSettings[] = {{"GOMP_SPINCOUNT=2000", "OMP_WAIT_POLICY="},
                                 {"LRU_CACHE_CAPACITY=64", nullptr},
                                 {"ONEDNN_PRIMITIVE_CACHE_CAPACITY=64", nullptr}};

bool names_same(const char* entry, const char* setting) {
  return !std::strncmp(entry, setting, static_cast<size_t>(std::strchr(setting, '=') - setting) + 1);
}

// Restarts the program with those settings that the user did not set; if all are set, continues.
void settle_environment(int, char** words, char** environment) {
  std::vector<char*> all;
  for (char** entry = environment; *entry; ++entry) all.push_back(*entry);
  const size_t own = all.size();
  for (const auto& setting : kSettings) {
    auto makes_it = [&](const char* entry) {
      return names_same(entry, setting.entry) || (setting.also && names_same(entry, setting.also));
    };
    if (std::none_of(all.begin(), all.end(), makes_it))
      all.push_back(const_cast<char*>(setting.entry));  // execve does not modify them
  }
  if (all.size() == own) return;
  all.push_back(nullptr);
  ::execve("/proc/self/exe", words, all.data());
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const run_first)(int, char**, char**) = settle_environment;

}  // namespace

int main(int count, char** words) { return hone::cli::run_program(words[0], {words + 1, words + count}); }
