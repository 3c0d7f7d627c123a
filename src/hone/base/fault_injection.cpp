#include "hone/base/fault_injection.h"

#include <unistd.h>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string>
#include <system_error>

#include "hone/base/error.h"

namespace hone {
namespace {

struct FaultSpec {
  std::string point, action;
  long due = 1;
  bool repeats = false;

  bool fires(long call) const { return repeats ? call >= due : call == due; }
};

FaultSpec g_fault;

FaultSpec parse_fault(const std::string& text) {
  auto first = text.find(':');
  if (first == std::string::npos) return {text, "kill"};
  auto second = text.find(':', first + 1);
  FaultSpec spec{text.substr(0, first), text.substr(first + 1, second - first - 1)};
  if (second != std::string::npos) spec.due = std::strtol(text.c_str() + second + 1, nullptr, 10);
  spec.repeats = text.ends_with('+');
  return spec;
}

}  // namespace

void set_fault(std::string_view spec) { g_fault = parse_fault(std::string(spec)); }

bool fault(std::string_view point) {
  const FaultSpec& spec = g_fault;
  static std::atomic<long> calls{0};
  if (spec.point.empty() || spec.point != point || !spec.fires(++calls)) return false;
  if (spec.action == "kill") std::raise(SIGKILL);
  if (spec.action == "enospc") throw std::system_error(ENOSPC, std::generic_category(), std::string(point));
  if (spec.action == "throw") throw InternalError("fault injected at " + std::string(point));
  if (spec.action == "sleep") ::sleep(60);
  while (spec.action == "hang") ::pause();
  return spec.action == "nan";
}

}  // namespace hone
