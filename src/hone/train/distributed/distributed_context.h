// Ranks and process groups of a run.
#pragma once
#include "hone/base/file.h"
#include "hone/parallel/collectives/device_mesh.h"
#include "hone/parallel/collectives/process_group.h"
#include "hone/parallel/pipeline/pipeline_model.h"
#include "hone/parallel/sharding/sharding_config.h"

namespace hone::train {

// Communication of context parallel attention (Megatron's cp_comm_type).
enum class ContextParallel {
  ring,        // p2p: keys and values in a ring
  heads,       // a2a: all-to-all between positions and heads (Ulysses)
  heads_ring,  // a2a+p2p: as many heads as there are KV heads, a ring for the rest
  gather,      // all_gather: of keys and values
};

struct ParallelConfig {
  parallel::World world;  // rank and world size
  parallel::ShardingConfig sharding;
  parallel::ProcessGroupOptions process_group;
  int sequence_parallel = 1;
  ContextParallel context_parallel = ContextParallel::ring;
  parallel::DeviceMesh::Request layout;     // tp, pp, cp, ep and etp; the rest is filled in
  parallel::PipelineRequest pipeline;       // blocks of each stage; the number of stages is the layout's
  bool megatron_sequence_parallel = false;  // tp ranks split the rows outside of sharded layers
  bool folder_on_each_node = false;         // write checkpoints on every node, for nodes without a shared file system
  bool async_save = false;                  // a thread of each process writes checkpoints and needs its own process group
};

// Why a model needs full sequences; null if they may be split.
const char* reason_for_full_sequences(const model::DecoderConfig& model);
// Throws UserError(usage) naming `option`, which splits sequences, if the model needs full ones.
void check_splits_sequences(const model::DecoderConfig& model, const char* option);
// Whether a model fits a layout of the processes of `world`, before any of them starts. Throws UserError(usage).
void check_layout(const ParallelConfig& config, const model::DecoderConfig& model, const parallel::World& world);

struct DistributedContext {
  parallel::World world;
  parallel::DeviceMesh mesh;
  std::unique_ptr<parallel::ProcessGroup> group = {};  // all ranks; null when there is one
  std::unique_ptr<parallel::ProcessGroup> checkpoint_group =
      {};  // all ranks, for the threads that write checkpoints; null without such threads
  std::unique_ptr<parallel::ProcessGroup> shards = {};    // that shard one replica of the model's state
  std::unique_ptr<parallel::ProcessGroup> replicas = {};  // that hold the same shard; null with one replica
  std::unique_ptr<parallel::ProcessGroup> tensor = {};    // that each layer is sharded across; null: not sharded
  // Pipeline stages of a model and the groups between them (parallel::StageGroups); null: no stages.
  std::unique_ptr<parallel::ProcessGroup> stages = {}, stage_gradients = {}, stages_around = {}, stage_gradients_around = {};
  std::unique_ptr<parallel::ProcessGroup> ends = {};           // the first and the last stage; null on others
  std::unique_ptr<parallel::ProcessGroup> last_stages = {};    // of all replicas; null if this is none, or the only one
  std::unique_ptr<parallel::ProcessGroup> same_rows = {};      // that compute the same rows; null: each has its own
  std::unique_ptr<parallel::ProcessGroup> data = {};           // data parallel: that hold the same shards; null when there is one
  std::unique_ptr<parallel::ProcessGroup> experts = {};        // of expert and expert tensor parallelism; null: one rank has all
  std::unique_ptr<parallel::ProcessGroup> expert_copies = {};  // that hold the same shards of experts; null when there is one
  int64_t expert_tensor_parallel_size = 0;                     // 0: experts are sharded like layers
  bool shards_optimizer =
      false;  // the optimizer state is sharded across `data` and `expert_copies` (groups of one rank included)
  std::unique_ptr<parallel::ProcessGroup> leaders =
      {};                        // the first rank of every node; null on others, and unless each node has its own folder
  bool several_folders = false;  // each of several nodes has its own folder

  // Connects to the other ranks and checks that all were started with the same `settings`.
  static DistributedContext join(const ParallelConfig& config, const Json& settings, at::Device device);
  bool shards_model() const { return shards || shards_optimizer; }
  bool splits_weights() const { return shards_model() || stages; }  // each process keeps a part of them
  bool is_tensor_or_expert_parallel() const { return tensor || experts; }
  int data_rank() const { return mesh.data_rank(world.rank); }
  int data_size() const { return mesh.data_size(); }
  // Weights start equal on all processes; dropout must differ, except between processes that compute the same rows.
  int dropout_rank() const { return tensor || stages ? data_rank() : world.rank; }
  parallel::StageGroups stage_groups() const {
    return {stages.get(), stage_gradients.get(), stages_around.get(), stage_gradients_around.get(), ends.get()};
  }

  std::string broadcast_text(const std::string& text) const;  // the first process's text, on all of them
  // A group of these ranks, which include this one; null: it is the only one, and `of_one_too` is false.
  std::unique_ptr<parallel::ProcessGroup> group_along(const char* name, const std::vector<int>& ranks,
                                                      bool of_one_too = false) const;
  // Whether other nodes have no access to the first process's folder; it is then created there. All processes write checkpoints,
  // so unless this was requested it throws UserError(usage) naming a process that has no access to the folder.
  bool folder_per_node(const fs::path& folder) const;
};

}  // namespace hone::train
