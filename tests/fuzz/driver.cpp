// Runs a fuzz target without a fuzzing engine: every file of a folder, then seeded random changes of them for some seconds.
// Usage: NAME_fuzz FOLDER SECONDS [SEED]. A crash prints the input that caused it to ./crash-NAME; sanitizers do the finding.
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "hone/base/rng.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

std::string g_crash_file;
const Bytes* g_current = nullptr;

void keep_input(int signal) {
  if (auto* file = std::fopen(g_crash_file.c_str(), "wb"); file && g_current) {
    std::fwrite(g_current->data(), 1, g_current->size(), file);
    std::fclose(file);
    std::fprintf(stderr, "input written to %s\n", g_crash_file.c_str());
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// Sanitizers call this before they end the program.
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));
void keep_input_on_death() { keep_input(SIGABRT); }

void try_input(const Bytes& input) {
  g_current = &input;
  LLVMFuzzerTestOneInput(input.data(), input.size());
  g_current = nullptr;
}

std::vector<Bytes> read_corpus(const fs::path& folder) {
  std::vector<Bytes> corpus;
  if (fs::is_directory(folder)) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.is_regular_file()) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const auto& file : files) {
      std::ifstream stream(file, std::ios::binary);
      corpus.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
    }
  }
  if (corpus.empty()) corpus.push_back({});
  return corpus;
}

// One small change: flip, insert, delete, repeat or borrow a stretch of another input.
void change(Bytes& input, const std::vector<Bytes>& corpus, hone::Rng& rng) {
  auto place = [&] { return static_cast<std::ptrdiff_t>(rng.below(input.size() + 1)); };
  auto stretch = [&](const Bytes& from) {
    size_t begin = rng.below(from.size() + 1), length = rng.below(std::min<size_t>(from.size() - begin, 64) + 1);
    return Bytes(from.begin() + static_cast<std::ptrdiff_t>(begin), from.begin() + static_cast<std::ptrdiff_t>(begin + length));
  };
  static constexpr char kTelling[] = "\"\\{}[]:,-=%#\n\t\0 <>|'&*!0189eE.\xff\xc3\xe2\xf0\x80";
  switch (rng.below(6)) {
    case 0:
      if (!input.empty()) input[rng.below(input.size())] ^= static_cast<uint8_t>(1u << rng.below(8));
      break;
    case 1:
      input.insert(input.begin() + place(), static_cast<uint8_t>(rng.next()));
      break;
    case 2:
      input.insert(input.begin() + place(), static_cast<uint8_t>(kTelling[rng.below(sizeof kTelling - 1)]));
      break;
    case 3:
      if (!input.empty()) {
        auto begin = static_cast<std::ptrdiff_t>(rng.below(input.size()));
        auto length = static_cast<std::ptrdiff_t>(rng.below(std::min<size_t>(input.size() - static_cast<size_t>(begin), 16)) + 1);
        input.erase(input.begin() + begin, input.begin() + begin + length);
      }
      break;
    case 4: {
      auto part = stretch(input);
      for (uint64_t times = rng.below(4) + 1; times > 0; --times) input.insert(input.begin() + place(), part.begin(), part.end());
      break;
    }
    default: {
      auto part = stretch(corpus[rng.below(corpus.size())]);
      input.insert(input.begin() + place(), part.begin(), part.end());
    }
  }
  if (input.size() > (1u << 16)) input.resize(1u << 16);
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) {
    std::fprintf(stderr, "usage: %s FOLDER SECONDS [SEED]\n", words[0]);
    return 2;
  }
  g_crash_file = "crash-" + fs::path(words[0]).filename().string();
  for (int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS}) std::signal(signal, keep_input);
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(keep_input_on_death);
  auto corpus = read_corpus(words[1]);
  for (const auto& input : corpus) try_input(input);
  hone::Rng rng(count > 3 ? std::strtoull(words[3], nullptr, 10) : 1);
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(std::atof(words[2]));
  long tries = 0;
  for (; std::chrono::steady_clock::now() < end; ++tries) {
    auto input = corpus[rng.below(corpus.size())];
    for (uint64_t changes = rng.below(8) + 1; changes > 0; --changes) change(input, corpus, rng);
    try_input(input);
  }
  std::printf("%zu files and %ld changed inputs, no crash\n", corpus.size(), tries);
  return 0;
}
