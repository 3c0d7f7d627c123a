// The options of table/distributed.cpp as typed fields (arg.h).
#pragma once
#include "hone/cli/arguments/arg.h"

namespace hone::cli {

// How a run is distributed over processes.
struct DistributedArguments : ArgumentGroup {
  using ArgumentGroup::ArgumentGroup;
  Arg<Json> deepspeed{*this, "deepspeed"};
  Arg<std::vector<std::string>> fsdp{*this, "fsdp"};
  Arg<Json> fsdp_config{*this, "fsdp_config"};
  Arg<int64_t> fsdp_min_num_params{*this, "fsdp_min_num_params"};
  Arg<Json> accelerate_launch{*this, "accelerate_launch"};
  Arg<int64_t> zero_hpz_partition_size{*this, "zero_hpz_partition_size"};
  Arg<int64_t> deepspeed_autotp_size{*this, "deepspeed_autotp_size"};
  Arg<bool> use_mca{*this, "use_mca"};
  Arg<bool> use_megatron_bridge{*this, "use_megatron_bridge"};
  Arg<bool> use_hyper_parallel{*this, "use_hyper_parallel"};
  Arg<Json> hyper_parallel_args{*this, "hyper_parallel_args"};
  Arg<int64_t> hyper_parallel_cp_size{*this, "hyper_parallel_cp_size"};
  Arg<int64_t> ray_num_workers{*this, "ray_num_workers"};
  Arg<Json> ray_init_kwargs{*this, "ray_init_kwargs"};
  Arg<std::string> ray_run_name{*this, "ray_run_name"};
  Arg<std::string> ray_storage_path{*this, "ray_storage_path"};
  Arg<Json> resources_per_worker{*this, "resources_per_worker"};
  Arg<std::string> placement_strategy{*this, "placement_strategy"};
  Arg<int64_t> sequence_parallel_size{*this, "sequence_parallel_size"};
  Arg<int64_t> tensor_parallel_size{*this, "tensor_parallel_size"};
  Arg<bool> sequence_parallel{*this, "sequence_parallel"};
  Arg<int64_t> pipeline_parallel_size{*this, "pipeline_parallel_size"};
  Arg<int64_t> virtual_pipeline_parallel_size{*this, "virtual_pipeline_parallel_size"};
  Arg<int64_t> num_layers_per_virtual_pipeline_stage{*this, "num_layers_per_virtual_pipeline_stage"};
  Arg<int64_t> decoder_first_pipeline_num_layers{*this, "decoder_first_pipeline_num_layers"};
  Arg<int64_t> decoder_last_pipeline_num_layers{*this, "decoder_last_pipeline_num_layers"};
  Arg<std::string> pipeline_model_parallel_layout{*this, "pipeline_model_parallel_layout"};
  Arg<bool> account_for_embedding_in_pipeline_split{*this, "account_for_embedding_in_pipeline_split"};
  Arg<bool> account_for_loss_in_pipeline_split{*this, "account_for_loss_in_pipeline_split"};
  Arg<int64_t> context_parallel_size{*this, "context_parallel_size"};
  Arg<std::string> cp_comm_type{*this, "cp_comm_type"};
  Arg<int64_t> expert_parallel_size{*this, "expert_parallel_size"};
  Arg<int64_t> expert_tensor_parallel_size{*this, "expert_tensor_parallel_size"};
  Arg<bool> use_distributed_optimizer{*this, "use_distributed_optimizer"};
  Arg<bool> optimizer_cpu_offload{*this, "optimizer_cpu_offload"};
  Arg<double> optimizer_offload_fraction{*this, "optimizer_offload_fraction"};
  Arg<int64_t> ddp_timeout{*this, "ddp_timeout"};
  Arg<double> peer_timeout{*this, "peer_timeout"};
  Arg<int64_t> max_restarts{*this, "max_restarts"};
  Arg<std::string> ddp_backend{*this, "ddp_backend"};
  Arg<int64_t> ddp_bucket_cap_mb{*this, "ddp_bucket_cap_mb"};
  Arg<int64_t> local_rank{*this, "local_rank"};
  Arg<Json> accelerator_config{*this, "accelerator_config"};
  Arg<Json> parallelism_config{*this, "parallelism_config"};
  Arg<std::string> master_addr{*this, "master_addr"};
  Arg<int64_t> master_port{*this, "master_port"};
};

}  // namespace hone::cli
