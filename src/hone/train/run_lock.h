// Only one run at a time may write to a folder: two would overwrite each other's files.
#pragma once
#include "hone/base/file.h"

namespace hone::train {

// Locks `folder` during its lifetime. The system releases the lock when the process ends, however it ends.
class RunLock {
 public:
  // Throws UserError(usage) naming the process that holds it. `setting` is the option that names the folder.
  explicit RunLock(const fs::path& folder, const char* setting = "output_dir");
  ~RunLock();
  RunLock(const RunLock&) = delete;

 private:
  fs::path path_;
  int fd_ = -1;
};

}  // namespace hone::train
