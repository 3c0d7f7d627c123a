// Who did what: a line of JSON for each request that makes, changes or hands out something.
#pragma once
#include <filesystem>

#include "hone/tinker/api/call.h"

namespace hone::tinker {

class AuditLog {
 public:
  explicit AuditLog(std::filesystem::path file) : file_(std::move(file)) {}
  // Any thread. `status` is what the request was answered.
  void write(const Call& call, int status) const;

 private:
  std::filesystem::path file_;
};

}  // namespace hone::tinker
