// Several devices, several nodes.
#include "hone/cli/table.h"

namespace hone::cli::table {
using namespace note;

void add_distributed(Rows& rows) {
  constexpr std::string_view kOneDevice = "training on several devices is not in this version; leave it out to run on one";
  add_group(
      rows, "Several devices", kTraining,
      {
          {"deepspeed", JsonText, "", "Sharding: zero0 … zero3, zero2_offload, zero3_offload, or a DeepSpeed JSON file.",
           refused{kOneDevice}},
          {"fsdp", Text, "", "Sharding: full_shard, shard_grad_op, with offload.", refused{kOneDevice}},
          {"fsdp_config", JsonText, "", "Its settings.", refused{kOneDevice}},
          {"fsdp_min_num_params", Integer(0), "0", "Smallest wrapped module.", accepted{"only read together with --fsdp"}},
          {"zero_hpz_partition_size", Integer(1), "", "ZeRO++ groups.", only_swift{},
           accepted{"only read together with --deepspeed"}},
          {"deepspeed_autotp_size", Integer(1), "", "Tensor parallelism in DeepSpeed.", only_swift{},
           accepted{"only read together with --deepspeed"}},
          {"sequence_parallel_size", Integer(1), "1", "Devices that share one sequence.", only_swift{}, refused{kOneDevice}},
          {"use_hyper_parallel", Flag, "false", "HyperParallel.", only_factory{}, refused{kOneDevice}},
          {"ddp_timeout", Integer(1), "18000000", "Seconds to wait for other ranks.", factory_default{"1800"},
           accepted{"ranks wait as long as the collectives' library does"}},
          {"ddp_backend", Text, "auto", "Collectives; auto is hccl, nccl or gloo by device.", accepted{"chosen by the device"}},
          {"ddp_find_unused_parameters", Flag, "", "Look for unused parameters.",
           accepted{"gradients are reduced by name; unused ones cost nothing"}},
          {"ddp_bucket_cap_mb", Integer(1), "", "Size of a reduction.", accepted{"hone sizes its own reductions"}},
          {"ddp_broadcast_buffers", Flag, "", "Broadcast buffers.", accepted{"decoder models have no such buffers"}},
          {"local_rank", Integer(-1), "-1", "Rank on this node.", also{"local_process_index"}, accepted{"read from LOCAL_RANK"}},
          {"accelerator_config", JsonText, "", "Accelerate's settings.", accepted{"hone needs no Accelerate"}},
          {"parallelism_config", JsonText, "", "Accelerate's settings.", accepted{"hone needs no Accelerate"}},
          {"ray_scope", Text, "last", "Ray.", accepted{"hone needs no Ray"}},
          {"ray_num_workers", Integer(1), "1", "Ray.", only_factory{}, accepted{"hone needs no Ray"}},
          {"ray_init_kwargs", JsonText, "", "Ray.", only_factory{}, accepted{"hone needs no Ray"}},
          {"ray_run_name", Text, "", "Ray.", only_factory{}, accepted{"hone needs no Ray"}},
          {"ray_storage_path", Path, "", "Ray.", only_factory{}, accepted{"hone needs no Ray"}},
          {"resources_per_worker", JsonText, "", "Ray.", only_factory{}, accepted{"hone needs no Ray"}},
          {"placement_strategy", Text, "PACK", "Ray.", only_factory{}, accepted{"hone needs no Ray"}},
          {"master_addr", Text, "", "Address of rank 0.", only_factory{}, accepted{"read from MASTER_ADDR"}},
          {"master_port", Integer(0, 65535), "", "Its port.", only_factory{}, accepted{"read from MASTER_PORT"}},
      });
}

}  // namespace hone::cli::table
