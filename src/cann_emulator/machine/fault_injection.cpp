#include "cann_emulator/machine/fault_injection.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cann_emulator/machine/settings.h"

namespace cann::faults {
namespace {

struct Fault {
  Kind kind;
  long when;
  std::string op;
  std::atomic<long> seen = 0;
};

bool for_this_rank(std::string& word) {
  auto slash = word.find('/');
  if (slash == word.npos) return true;
  auto rank = word.substr(slash + 1);
  word.resize(slash);
  const char* own = std::getenv("RANK");
  return own && rank == own;
}

std::vector<std::unique_ptr<Fault>> read() {
  std::vector<std::unique_ptr<Fault>> out;
  std::string text = settings().fault + ",";
  for (size_t start = 0, end; (end = text.find(',', start)) != text.npos; start = end + 1) {
    auto word = text.substr(start, end - start);
    if (!for_this_rank(word)) continue;
    auto at = word.find('@');
    if (at == word.npos) continue;
    auto name = word.substr(0, at);
    auto colon = word.find(':', at);
    auto fault = std::make_unique<Fault>();
    fault->kind = name == "kernel" ? Kind::kernel : name == "lost" ? Kind::lost : name == "hccl" ? Kind::hccl : Kind::none;
    fault->when = std::strtol(word.c_str() + at + 1, nullptr, 10);
    if (colon != word.npos) fault->op = word.substr(colon + 1);
    if (fault->kind != Kind::none) out.push_back(std::move(fault));
  }
  return out;
}

auto& all() {
  static auto kFaults = read();
  return kFaults;
}

}  // namespace

Kind fault_at_launch(std::string_view op) {
  for (auto& fault : all()) {
    if (fault->kind == Kind::hccl || (!fault->op.empty() && fault->op != op)) continue;
    long seen = ++fault->seen;
    bool lasting = fault->kind == Kind::lost;  // a lost card stays lost
    if (seen == fault->when || (lasting && seen > fault->when)) return fault->kind;
  }
  return Kind::none;
}

bool at_collective() {
  for (auto& fault : all())
    if (fault->kind == Kind::hccl && ++fault->seen >= fault->when) return true;
  return false;
}

}  // namespace cann::faults
