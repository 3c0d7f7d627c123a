#include "hone/base/error.h"

namespace hone {

void fail_check(const char* condition, const char* file, int line, const std::string& message) {
  throw InternalError(fmt::format("{}:{}: check failed: {}{}{}", file, line, condition, message.empty() ? "" : ": ", message));
}

}  // namespace hone
