// One run at a time writes into a folder: two that save there would take each other's files away.
#pragma once
#include "hone/base/file.h"

namespace hone::train {

// Holds `folder` while it lives. The system lets go of it when the process ends, however it ends.
class RunLock {
 public:
  // Throws UserError(usage) that names the process which holds it.
  explicit RunLock(const fs::path& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;

 private:
  fs::path path_;
  int fd_ = -1;
};

}  // namespace hone::train
