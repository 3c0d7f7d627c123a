// Several devices, several nodes.
#include "hone/cli/table.h"

namespace hone::cli::table {
using namespace note;

void add_distributed(Rows& rows) {
  constexpr Verbs kLayouts = kSft | kPt | kRlhf;  // commands whose models may be cut
  add_group(
      rows, "Distributed training", kTraining,
      {
          {"deepspeed", JsonText, "", "Sharding: zero0 … zero3, zero2_offload, zero3_offload, or a DeepSpeed JSON file."},
          {"fsdp", Text, "", "Sharding: full_shard, shard_grad_op, hybrid_shard, no_shard, with offload; or fsdp2."},
          {"fsdp_config", JsonText, "", "Its settings, of the first or the second version."},
          {"fsdp_min_num_params", Integer(0), "0",
           "FSDP size-based wrapping: minimum parameters per unit; 0 wraps each decoder block."},
          {"accelerate_launch", JsonText, "", "Arguments of accelerate launch: config_file, num_processes ….", only_factory{}},
          {"zero_hpz_partition_size", Integer(1), "", "Ranks that shard one copy of the model state.", only_swift{}},
          {"deepspeed_autotp_size", Integer(1), "",
           "DeepSpeed's tensor parallelism: as --tensor_parallel_size; data parallel copies are not sharded then.", only_swift{}},
          {"sequence_parallel_size", Integer(1), "1", "Sequence parallel size: ranks that split one sequence.", only_swift{}},
          {"tensor_parallel_size", Integer(1), "1",
           "Tensor parallel size: ranks that each layer is cut over; the rest of the ranks are data parallel.", verbs{kLayouts},
           also{"tensor_model_parallel_size"}},
          {"sequence_parallel", Flag, "false",
           "Megatron's sequence parallelism: tensor parallel ranks deal out the rows outside of the cut layers.",
           verbs{kLayouts}},
          {"pipeline_parallel_size", Integer(1), "1",
           "Pipeline parallel size: stages that the blocks are dealt out over; micro-batches are those of an update (1F1B).",
           verbs{kLayouts}, also{"pipeline_model_parallel_size"}},
          {"decoder_first_pipeline_num_layers", Integer(1), "",
           "Blocks of the first pipeline stage; the others share the rest evenly.", verbs{kLayouts}},
          {"decoder_last_pipeline_num_layers", Integer(1), "",
           "Blocks of the last pipeline stage; the others share the rest evenly.", verbs{kLayouts}},
          {"account_for_embedding_in_pipeline_split", Flag, "false",
           "The embedding counts as a block of the first pipeline stage.", verbs{kLayouts}},
          {"account_for_loss_in_pipeline_split", Flag, "false", "The loss counts as a block of the last pipeline stage.",
           verbs{kLayouts}},
          {"context_parallel_size", Integer(1), "1",
           "Context parallel size: ranks that split each sequence, keys and values going round in a ring.", verbs{kLayouts}},
          {"expert_parallel_size", Integer(1), "1",
           "Expert parallel size: ranks that the experts of each layer are dealt out over.", verbs{kLayouts},
           also{"expert_model_parallel_size"}},
          {"expert_tensor_parallel_size", Integer(1), "",
           "Expert tensor parallel size: ranks that each expert is cut over; by default as many as tensor_parallel_size.",
           verbs{kLayouts}},
          {"use_hyper_parallel", Flag, "false", "HyperParallel: FSDP, or with tp_size of hyper_parallel_args tensor parallelism.",
           only_factory{}},
          {"hyper_parallel_args", JsonText, "", "Its settings: tp_size.", only_factory{}},
          {"ddp_timeout", Integer(1), "18000000", "Timeout of a collective in seconds.", factory_default{"1800"}},
          {"peer_timeout", Real(0.5), "60", "Seconds without a heartbeat after which a rank is considered lost."},
          {"max_restarts", Integer(0), "0", "Maximum restarts of failed processes, from the last checkpoint.",
           environment{"MAX_RESTARTS"}},
          {"ddp_backend", Choice("gloo|nccl|hccl|mpi|ccl|cncl|mccl"), "auto",
           "Collective backend: hccl, nccl or gloo; must match the device."},
          {"ddp_find_unused_parameters", Flag, "", "Look for unused parameters.",
           always_on{"true", "unused parameters are always found"}},
          {"ddp_bucket_cap_mb", Integer(1), "", "Gradient bucket size for the all-reduce, in MiB."},
          {"ddp_broadcast_buffers", Flag, "", "Broadcast buffers.",
           always_on{"false", "decoder models have no buffers that could differ"}},
          {"local_rank", Integer(-1), "-1", "Rank on this node, for launchers that pass it; LOCAL_RANK wins.",
           also{"local_process_index"}},
          {"accelerator_config", JsonText, "",
           "Accelerate's settings, or their file: split_batches and gradient_accumulation_kwargs count; the log names those that "
           "change nothing."},
          {"parallelism_config", JsonText, "", "Device mesh: dp_replicate_size, dp_shard_size, tp_size, cp_size."},
          {"ray_scope", Text, "last", "Ray.", no_effect{"hone needs no Ray"}},
          {"ray_num_workers", Integer(1), "1", "With USE_RAY=1: processes of the run, which hone starts itself.", only_factory{}},
          {"ray_init_kwargs", JsonText, "", "Ray.", only_factory{}, no_effect{"hone needs no Ray"}},
          {"ray_run_name", Text, "", "Ray.", only_factory{}, no_effect{"hone needs no Ray"}},
          {"ray_storage_path", Path, "", "Ray.", only_factory{}, no_effect{"hone needs no Ray"}},
          {"resources_per_worker", JsonText, "", "Ray.", only_factory{}, no_effect{"hone needs no Ray"}},
          {"placement_strategy", Text, "PACK", "Ray.", only_factory{}, no_effect{"hone needs no Ray"}},
          {"master_addr", Text, "", "Address of rank 0; MASTER_ADDR wins.", only_factory{}},
          {"master_port", Integer(0, 65535), "", "Its port; MASTER_PORT wins.", only_factory{}},
      });
}

}  // namespace hone::cli::table
