// Ranks and process groups of a run, and what this process keeps of the model.
#pragma once
#include "hone/base/file.h"
#include "hone/parallel/collectives/device_mesh.h"
#include "hone/parallel/collectives/process_group.h"
#include "hone/parallel/pipeline/pipeline_model.h"
#include "hone/parallel/sharding/sharding_config.h"

namespace hone::train {

// How attention sees sequences that context parallelism splits, by Megatron's words (cp_comm_type).
enum class ContextParallel {
  ring,        // p2p: keys and values go round
  heads,       // a2a: ranks exchange positions for heads (Ulysses)
  heads_ring,  // a2a+p2p: heads as far as there are key heads, a ring for the rest
  gather,      // all_gather: of keys and values
};

struct ParallelConfig {
  parallel::World world;  // which process of how many this is
  parallel::ShardingConfig sharding;
  parallel::ProcessGroupOptions process_group;
  int sequence_parallel = 1;
  ContextParallel context_parallel = ContextParallel::ring;
  parallel::DeviceMesh::Request layout;     // tp, pp, cp, ep and etp; the rest is filled in
  parallel::PipelineRequest pipeline;       // how blocks go to stages; their number is the layout's
  bool megatron_sequence_parallel = false;  // rows outside of layers that tp cuts are dealt out among its ranks
  bool folder_on_each_node = false;         // checkpoints are written on every node, should they share no file system
  bool async_save = false;  // a thread of each process writes checkpoints and needs a line to the others' of its own
};

struct DistributedContext {
  parallel::World world;
  parallel::DeviceMesh mesh;
  std::unique_ptr<parallel::ProcessGroup> group = {};  // all of them; null when there is one
  std::unique_ptr<parallel::ProcessGroup> checkpoint_group =
      {};  // all of them once more, for the threads that write; null when there are none
  std::unique_ptr<parallel::ProcessGroup> shards = {};    // those that share one copy of the model's state
  std::unique_ptr<parallel::ProcessGroup> replicas = {};  // those that keep the same shard; null when there is one copy
  std::unique_ptr<parallel::ProcessGroup> tensor = {};    // those that each layer is cut over; null: layers are whole
  // Those that have the pipeline stages of a model, and the lines between them (parallel::StageGroups); null: no stages.
  std::unique_ptr<parallel::ProcessGroup> stages = {}, stage_gradients = {}, stages_around = {}, stage_gradients_around = {};
  std::unique_ptr<parallel::ProcessGroup> ends = {};         // the first and the last of them; null on others
  std::unique_ptr<parallel::ProcessGroup> last_stages = {};  // of all copies; null where this is none, or the only one
  std::unique_ptr<parallel::ProcessGroup> model_parallel =
      {};  // those that compute the same rows together, where layers are cut and in stages
  std::unique_ptr<parallel::ProcessGroup> data = {};     // beside them, those that hold the same parts; null when there is one
  std::unique_ptr<parallel::ProcessGroup> experts = {};  // those that experts are dealt out over and cut; null: one rank has all
  std::unique_ptr<parallel::ProcessGroup> expert_copies =
      {};                  // those that hold the same parts of experts; null when there is one
  int64_t expert_cut = 0;  // how many of `experts` cut the same ones; 0: experts are cut as layers are
  bool shards_optimizer =
      false;  // `data` and `expert_copies` shard what they have copies of (a group of one, where there is one)
  std::unique_ptr<parallel::ProcessGroup> leaders =
      {};                        // the first of every node, on these; null unless each node has its own folder
  bool several_folders = false;  // asked for a folder on each of several nodes

  // Meets the others and makes sure that all were started with the same `settings`.
  static DistributedContext join(const ParallelConfig& config, const Json& settings, at::Device device);
  bool shards_model() const { return shards || shards_optimizer; }
  bool cuts_model() const { return tensor || experts; }
  int data_rank() const { return mesh.data_rank(world.rank); }
  int data_size() const { return mesh.data_size(); }
  // Those that compute the same rows together; null: each has its own.
  parallel::ProcessGroup* peers() const { return model_parallel ? model_parallel.get() : tensor ? tensor.get() : stages.get(); }
  parallel::StageGroups stage_groups() const {
    return {stages.get(), stage_gradients.get(), stages_around.get(), stage_gradients_around.get(), ends.get()};
  }

  fs::path share_text(const std::string& text) const;  // the first process's text, on all of them
  // These ranks, this one among them; null: it is alone, and no group of one is asked for.
  std::unique_ptr<parallel::ProcessGroup> group_along(const char* name, const std::vector<int>& ranks,
                                                      bool of_one_too = false) const;
  // Whether the first process's folder is another one on other nodes, where it is made then. Checkpoints are written by all, so
  // unless that was asked for it throws UserError(usage) naming a process that does not see the folder.
  bool folder_per_node(const fs::path& folder) const;
};

}  // namespace hone::train
