// Several devices, several nodes.
#include "hone/cli/table.h"

namespace hone::cli::table {
using namespace note;

void add_distributed(Rows& rows) {
  constexpr Verbs kLayouts = kTraining;  // commands that support parallel layouts
  constexpr Type kRanks = Integer(1, 1 << 20);
  add_group(
      rows, "Distributed training", kTraining,
      {
          {"deepspeed", JsonText, "", "Sharding: zero0 … zero3, zero2_offload, zero3_offload, or a DeepSpeed JSON file."},
          {"fsdp", List, "",
           "Sharding: full_shard, shard_grad_op, hybrid_shard, no_shard, with offload; fsdp2; or JSON with fsdp and fsdp_config, "
           "inline or in a file."},
          {"fsdp_config", JsonText, "",
           "FSDP settings of version 1 or 2: fsdp_version, sharding_strategy, reshard_after_forward, offload_params, "
           "backward_prefetch, auto_wrap_policy, min_num_params, mixed_precision_policy, activation_checkpointing, "
           "activation_cpu_offload."},
          {"fsdp_min_num_params", Integer(0), "0",
           "FSDP size-based wrapping: minimum parameters per unit; 0 wraps each decoder block."},
          {"fsdp_transformer_layer_cls_to_wrap", Text, "", "Class of the blocks that FSDP wraps.", only_factory{},
           no_effect{"each decoder block is a unit of FSDP"}},
          {"accelerate_launch", JsonText, "", "Arguments of accelerate launch: config_file, num_processes …."},
          {"zero_hpz_partition_size", Integer(1), "", "Ranks that shard one replica of the model state.", only_swift{}},
          {"deepspeed_autotp_size", kRanks, "",
           "DeepSpeed's tensor parallelism: like --tensor_parallel_size, with ZeRO 1 and 2 over the data parallel ranks.",
           only_swift{}},
          {"sequence_parallel_size", kRanks, "1", "Sequence parallel size: ranks that split one sequence.", only_swift{}},
          {"tensor_parallel_size", kRanks, "1",
           "Tensor parallel size: ranks that each layer is sharded across; the remaining ranks are data parallel.",
           verbs{kLayouts}, also{"tensor_model_parallel_size"}},
          {"sequence_parallel", Flag, "false",
           "Megatron's sequence parallelism: tensor parallel ranks split the rows outside of the sharded layers.",
           verbs{kLayouts}},
          {"pipeline_parallel_size", kRanks, "1",
           "Pipeline parallel size: stages that the blocks are distributed over; the micro-batches are those of an update "
           "(1F1B).",
           verbs{kLayouts}, also{"pipeline_model_parallel_size"}},
          {"virtual_pipeline_parallel_size", kRanks, "1",
           "Virtual pipeline stages per rank (interleaved 1F1B): the bubble shrinks by this factor.", verbs{kLayouts},
           also{"virtual_pipeline_model_parallel_size"}},
          {"num_layers_per_virtual_pipeline_stage", Integer(1), "",
           "Blocks of each virtual pipeline stage, instead of virtual_pipeline_parallel_size.", verbs{kLayouts}},
          {"decoder_first_pipeline_num_layers", Integer(1), "",
           "Blocks of the first pipeline stage; the others share the rest evenly.", verbs{kLayouts}},
          {"decoder_last_pipeline_num_layers", Integer(1), "",
           "Blocks of the last pipeline stage; the others share the rest evenly.", verbs{kLayouts}},
          {"pipeline_model_parallel_layout", Text, "",
           "Blocks of every pipeline stage, as Megatron writes them: \"Et*3|(tttt|)*2tL\"; more stages than ranks are virtual "
           "ones.",
           verbs{kLayouts}},
          {"account_for_embedding_in_pipeline_split", Flag, "false",
           "The embedding counts as a block of the first pipeline stage.", verbs{kLayouts}},
          {"account_for_loss_in_pipeline_split", Flag, "false", "The loss counts as a block of the last pipeline stage.",
           verbs{kLayouts}},
          {"context_parallel_size", kRanks, "1", "Context parallel size: ranks that split each sequence.", verbs{kLayouts}},
          {"cp_comm_type", Choice("p2p|a2a|a2a+p2p|all_gather"), "p2p",
           "Communication of context parallel ranks: keys and values in a ring (p2p) or gathered (all_gather), Ulysses (a2a), or "
           "Ulysses with a ring for the rest (a2a+p2p).",
           verbs{kLayouts}},
          {"expert_parallel_size", kRanks, "1",
           "Expert parallel size: ranks that the experts of each layer are distributed over.", verbs{kLayouts},
           also{"expert_model_parallel_size"}},
          {"expert_tensor_parallel_size", kRanks, "",
           "Expert tensor parallel size: ranks that each expert is sharded across; none is tensor_parallel_size.",
           verbs{kLayouts}},
          {"use_distributed_optimizer", Flag, "false",
           "Distributed optimizer (ZeRO-1): shard the optimizer state across ranks that hold the same parameters, in any layout.",
           verbs{kLayouts}},
          {"optimizer_cpu_offload", Flag, "false",
           "Keep the state of the distributed optimizer in host memory and run its update there.", verbs{kLayouts}},
          {"optimizer_offload_fraction", Real(0, 1), "1", "Share of the optimizer state that optimizer_cpu_offload moves.",
           verbs{kLayouts}},
          {"use_mca", Flag, "false",
           "Accept Megatron's keys in the file: tensor_model_parallel_size and other layouts, fusions, experts; models stay "
           "Hugging Face folders.",
           only_factory{}, environment{"USE_MCA"}},
          {"use_megatron_bridge", Flag, "false", "The same for LLaMA-Factory's files for Megatron Bridge.", only_factory{},
           environment{"USE_MEGATRON_BRIDGE"}},
          {"use_hyper_parallel", Flag, "false", "HyperParallel: FSDP, or with tp_size of hyper_parallel_args tensor parallelism.",
           only_factory{}},
          {"hyper_parallel_args", JsonText, "", "HyperParallel settings: tp_size.", only_factory{}},
          {"hyper_parallel_cp_size", Integer(1), "1", "HyperParallel: context parallel size.", only_factory{}},
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
           "Accelerate's settings, or their file: split_batches and gradient_accumulation_kwargs are used; the log names those "
           "without effect."},
          {"parallelism_config", JsonText, "", "Device mesh: dp_replicate_size, dp_shard_size, tp_size, cp_size."},
          {"ray_scope", Text, "last", "Ray.", no_effect{"hone needs no Ray"}},
          {"ray_num_workers", Integer(1), "1",
           "With USE_RAY=1: number of processes, which hone starts itself, or on a Ray cluster if one of the settings below is "
           "given.",
           only_factory{}},
          {"ray_init_kwargs", JsonText, "", "With USE_RAY=1: arguments of ray.init, such as the cluster's address.",
           only_factory{}},
          {"ray_run_name", Text, "", "With USE_RAY=1: folder of the run in ray_storage_path; none is that of output_dir.",
           only_factory{}},
          {"ray_storage_path", Path, "",
           "With USE_RAY=1: folder to which checkpoints are copied as they are written, and at the end the rest of the run.",
           only_factory{}},
          {"resources_per_worker", JsonText, "",
           "With USE_RAY=1: resources that a process reserves, such as {\"NPU\": 1}; none is one accelerator if there are "
           "enough.",
           only_factory{}},
          {"placement_strategy", Choice("PACK|SPREAD|STRICT_PACK|STRICT_SPREAD"), "PACK",
           "With USE_RAY=1: how processes are placed on the cluster's nodes.", only_factory{}},
          {"master_addr", Text, "", "Address of rank 0; MASTER_ADDR wins.", only_factory{}},
          {"master_port", Integer(0, 65535), "", "Its port; MASTER_PORT wins.", only_factory{}},
      });
}

}  // namespace hone::cli::table
