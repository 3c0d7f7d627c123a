// Audit log: a line of JSON for each request that creates, changes or exports something.
#pragma once
#include <filesystem>

#include "hone/tinker/api/call.h"

namespace hone::tinker {

class AuditLog {
 public:
  explicit AuditLog(std::filesystem::path file) : file_(std::move(file)) {}
  // Thread-safe. `status` is the response status.
  void write(const Call& call, int status) const;

 private:
  std::filesystem::path file_;
};

}  // namespace hone::tinker
