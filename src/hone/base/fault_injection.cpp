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
  FaultSpec plan{text.substr(0, first), text.substr(first + 1, second - first - 1)};
  if (second != std::string::npos) plan.due = std::strtol(text.c_str() + second + 1, nullptr, 10);
  plan.repeats = text.ends_with('+');
  return plan;
}

}  // namespace

void set_fault(std::string_view plan) { g_fault = parse_fault(std::string(plan)); }

bool fault(std::string_view point) {
  const FaultSpec& plan = g_fault;
  static std::atomic<long> calls{0};
  if (plan.point.empty() || plan.point != point || !plan.fires(++calls)) return false;
  if (plan.action == "kill") std::raise(SIGKILL);
  if (plan.action == "enospc") throw std::system_error(ENOSPC, std::generic_category(), std::string(point));
  if (plan.action == "throw") throw InternalError("fault injected at " + std::string(point));
  if (plan.action == "sleep") ::sleep(60);
  while (plan.action == "hang") ::pause();
  return plan.action == "nan";
}

}  // namespace hone
