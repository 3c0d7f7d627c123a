// Memory of two things a user meets first: loading a model folder, and the loss at a real vocabulary. One line of JSON;
// bench/memory.py runs it and transformers, and prints the ratios.
//   memory_bench load MODEL           seconds to load and read every weight once, resident bytes afterwards
//   memory_bench loss TOKENS WORDS    extra bytes at the peak of loss and gradient over a frozen head of width 896
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

#include "hone/base/json.h"
#include "hone/device/memory.h"
#include "hone/model/causal_lm.h"
#include "hone/ops/loss/linear_cross_entropy.h"

namespace hone {
namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// A field of /proc/self/status in bytes: VmRSS counts mapped pages of the file too, RssAnon what the program itself holds.
int64_t status_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1)) * 1024;
  return 0;
}

Json load(const std::string& folder) {
  const int64_t before = status_bytes("VmRSS");
  const double began = seconds();
  auto model = model::CausalLM::load(folder);
  const double loaded = seconds();
  int64_t bytes = 0;
  double sum = 0;
  for (const auto& parameter : model->parameters()) {
    bytes += static_cast<int64_t>(parameter.value->nbytes());
    sum += parameter.value->flatten().view(at::kLong).sum().item<double>();
  }
  return {{"load_seconds", loaded - began},
          {"read_seconds", seconds() - loaded},
          {"weight_bytes", bytes},
          {"rss_bytes", status_bytes("VmRSS") - before},
          {"peak_bytes", status_bytes("VmHWM") - before},
          {"own_bytes", status_bytes("RssAnon")},
          {"checksum", sum}};
}

Json loss(int64_t tokens, int64_t words) {
  constexpr int64_t kWidth = 896;
  auto weight = at::randn({words, kWidth}) * 0.02;
  auto hidden = at::randn({tokens, kWidth}).requires_grad_();
  auto targets = at::randint(words, {tokens}, at::kLong);
  at::mm(hidden.detach().slice(0, 0, 64), weight.slice(0, 0, 64).t());  // the matmul library's own buffers
  device::reset_peak_memory(at::kCPU);
  const int64_t before = device::memory_use(at::kCPU).current;
  const double began = seconds();
  auto entropy = ops::linear_cross_entropy(hidden, weight, {}, targets);
  entropy.sum.backward();
  return {{"seconds", seconds() - began},
          {"extra_bytes", device::memory_use(at::kCPU).peak - before},
          {"loss", entropy.sum.item<double>()}};
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  const std::string what = argc > 2 ? argv[1] : "";
  if (what != "load" && (what != "loss" || argc < 4)) {
    std::fprintf(stderr, "usage: memory_bench load MODEL | memory_bench loss TOKENS WORDS\n");
    return 2;
  }
  const auto line = what == "load" ? hone::load(argv[2]) : hone::loss(std::stoll(argv[2]), std::stoll(argv[3]));
  std::printf("%s\n", line.dump().c_str());
  return 0;
}
