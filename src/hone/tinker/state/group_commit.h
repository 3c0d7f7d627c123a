// Writes of several threads in one transaction. A commit waits for the disk, which takes longer than the writes themselves: who
// comes meanwhile waits for the next one and shares it.
#pragma once
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

#include "hone/tinker/state/database.h"

namespace hone::tinker {

class GroupCommit {
 public:
  using Work = std::function<void(Database&)>;
  explicit GroupCommit(Database& database) : database_(database) {}

  // Any thread. Returns when what `work` wrote is on the disk. Work that throws is undone alone, and throws here; a commit that
  // fails fails for all that share it.
  // `point`: where a test can make the commit fail.
  void run(const Work& work, const char* point = "tinker.commit");

 private:
  struct Waiting {
    const Work& work;
    const char* point;
    std::exception_ptr problem = nullptr;
    bool done = false;
  };
  void commit(const std::vector<Waiting*>& group);
  void apply(Waiting& each);

  Database& database_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Waiting*> waiting_;
  bool committing_ = false;
};

}  // namespace hone::tinker
