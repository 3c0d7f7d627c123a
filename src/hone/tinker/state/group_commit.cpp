#include "hone/tinker/state/group_commit.h"

#include <utility>

#include "hone/base/fault_injection.h"

namespace hone::tinker {

// The first caller while no commit runs commits for all that wait.
void GroupCommit::run(const Work& work, const char* point) {
  Waiting own{work, point};
  {
    std::unique_lock lock(mutex_);
    waiting_.push_back(&own);
    changed_.wait(lock, [&] { return own.done || !committing_; });
    if (!own.done) {
      committing_ = true;
      const auto group = std::exchange(waiting_, {});
      lock.unlock();
      commit(group);
      lock.lock();
      for (auto* each : group) each->done = true;
      committing_ = false;
      changed_.notify_all();
    }
  }
  if (own.problem) std::rethrow_exception(own.problem);
}

void GroupCommit::commit(const std::vector<Waiting*>& group) try {
  Transaction transaction(database_);
  for (auto* each : group) apply(*each);
  for (auto* each : group) fault(each->point);
  transaction.commit();
} catch (...) {
  for (auto* each : group)
    if (!each->problem) each->problem = std::current_exception();
}

void GroupCommit::apply(Waiting& each) {
  database_.execute("SAVEPOINT one_of_group");
  try {
    each.work(database_);
  } catch (...) {
    each.problem = std::current_exception();
  }
  if (each.problem) database_.execute("ROLLBACK TO one_of_group");
  database_.execute("RELEASE one_of_group");
}

}  // namespace hone::tinker
