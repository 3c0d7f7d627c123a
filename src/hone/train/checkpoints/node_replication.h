// Replicates a run's folder to every node, for nodes without a shared file system (save_on_each_node).
#pragma once
#include "hone/base/file.h"
#include "hone/parallel/collectives/process_group.h"

namespace hone::train {

class NodeReplicator {
 public:
  // `leaders`: the first process of every node; null on the others.
  explicit NodeReplicator(parallel::ProcessGroup* leaders) : leaders_(leaders) {}

  bool leads() const { return leaders_ != nullptr; }
  // Afterwards all nodes have the files of every node's `folder`, each complete or unchanged; for equal names the first
  // node's. Collective over leaders.
  // Errors are thrown after all files were sent, so that no rank waits forever.
  enum class Depth { folder_alone, all_below };
  void replicate(const fs::path& folder, Depth depth) const;

 private:
  parallel::ProcessGroup* leaders_;
};

}  // namespace hone::train
