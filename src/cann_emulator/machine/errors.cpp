#include "cann_emulator/machine/errors.h"

#include <mutex>

namespace cann {
namespace {

std::mutex mutex;
std::string recent;

}  // namespace

Status fail(Status code, std::string text) {
  std::lock_guard lock(mutex);
  recent = std::move(text);
  return code;
}

std::string take_error() {
  std::lock_guard lock(mutex);
  return std::exchange(recent, {});
}

}  // namespace cann
