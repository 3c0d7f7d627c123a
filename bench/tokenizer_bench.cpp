// Speed of the tokenizer on one thread: tokenizer_bench MODEL_DIR FILE [repeats] prints load time and MB/s as JSON.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "hone/base/error.h"
#include "hone/base/file.h"
#include "hone/text/tokenizer.h"

namespace {

double seconds_of(auto&& work) {
  auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3) {
    std::fputs("usage: tokenizer_bench MODEL_DIR FILE [repeats]\n", stderr);
    return static_cast<int>(hone::ExitCode::usage);
  }
  std::shared_ptr<const hone::text::Tokenizer> tokenizer;
  double load = 1e9, encode = 1e9;
  int repeats = argc > 3 ? std::atoi(argv[3]) : 3;
  for (int i = 0; i < repeats; ++i) load = std::min(load, seconds_of([&] { tokenizer = hone::text::Tokenizer::load(argv[1]); }));
  auto text = hone::read_file(argv[2]);
  size_t tokens = 0;
  double first = 0;
  for (int i = 0; i < repeats; ++i) {
    double took = seconds_of([&] { tokens = tokenizer->encode(text).size(); });
    if (i == 0) first = took;
    encode = std::min(encode, took);
  }
  double megabytes = static_cast<double>(text.size()) / 1e6;
  std::printf("{\"load_s\": %.4f, \"first_mb_per_s\": %.2f, \"mb_per_s\": %.2f, \"tokens\": %zu}\n", load, megabytes / first,
              megabytes / encode, tokens);
  return 0;
} catch (const hone::UserError& problem) {
  std::fprintf(stderr, "error: %s\n", problem.what());
  return static_cast<int>(problem.code());
}
