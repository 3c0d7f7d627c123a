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
  // Files that one node has in its `folder`, all have there afterwards, each whole or as before; of several by one name the first
  // node's. Every leader calls it; the others need not. What cannot be listed, read or written is thrown when all files have
  // was sent, so that no rank waits forever.
  enum class Depth { folder_alone, all_below };
  void replicate(const fs::path& folder, Depth depth) const;

 private:
  parallel::ProcessGroup* leaders_;
};

}  // namespace hone::train
