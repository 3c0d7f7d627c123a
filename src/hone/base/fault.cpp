#include "hone/base/fault.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string>
#include <system_error>
#include <unistd.h>

#include "hone/base/error.h"

namespace hone {
namespace {

struct Plan {
  std::string point, action;
  long due = 1;
};

Plan read_plan() {
  const char* setting = std::getenv("HONE_FAULT");
  if (!setting) return {};
  std::string text = setting;
  auto first = text.find(':');
  if (first == std::string::npos) return {text, "kill", 1};
  auto second = text.find(':', first + 1);
  Plan plan{text.substr(0, first), text.substr(first + 1, second - first - 1), 1};
  if (second != std::string::npos) plan.due = std::strtol(text.c_str() + second + 1, nullptr, 10);
  return plan;
}

}  // namespace

bool fault(std::string_view point) {
  static const Plan plan = read_plan();
  static std::atomic<long> calls{0};
  if (plan.point.empty() || plan.point != point || ++calls != plan.due) return false;
  if (plan.action == "kill") std::raise(SIGKILL);
  if (plan.action == "enospc") throw std::system_error(ENOSPC, std::generic_category(), std::string(point));
  if (plan.action == "throw") throw InternalError("fault injected at " + std::string(point));
  if (plan.action == "sleep") ::sleep(60);
  return plan.action == "nan";
}

}  // namespace hone
