#include "hone/cli/configs/training/parallel_config.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/base/usable_cores.h"
#include "hone/cli/arguments/distributed.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/output.h"
#include "hone/cli/arguments/training.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/training/accelerate_config.h"
#include "hone/cli/configs/training/fsdp_config.h"
#include "hone/cli/parsing/environment.h"
#include "hone/cli/parsing/json_setting.h"
#include "hone/cli/parsing/option_conflicts.h"
#include "hone/device/inventory.h"
#include "hone/parallel/pipeline/layout_string.h"

namespace hone::cli {
namespace {

using parallel::ShardingRequest;

bool is_switched_on(const char* variable) { return environment_flag(system_access(), variable).value_or(false); }

int64_t world_size(const Options& options) {
  if (const char* size = std::getenv("WORLD_SIZE")) return std::max(1, std::atoi(size));
  auto launch = launch_of(options);
  return std::max(1, launch.processes) * launch.nodes;
}

// "zero3", a path, an object, or the file name of one of LLaMA-Factory's examples, regardless of the checkout's location.
Json deepspeed_json(const DistributedArguments& args) {
  const auto& value = args.deepspeed.raw();
  if (!value.is_string()) return value;
  auto word = value.get<std::string>();
  if (auto preset = parallel::deepspeed_preset(word); !preset.is_null()) return preset;
  if (fs::exists(word)) return *args.deepspeed;
  auto name = fs::path(word).stem().string();  // ds_z3_offload_config
  if (name.starts_with("ds_z") && name.ends_with("_config")) {
    auto preset = parallel::deepspeed_preset("zero" + name.substr(4, name.size() - 11));
    if (!preset.is_null()) {
      log::warning("{} does not exist; LLaMA-Factory's example of that name is used", word);
      return preset;
    }
  }
  const bool is_path = word.ends_with(".json") || word.find('/') != word.npos;
  throw UserError(ExitCode::usage,
                  is_path ? fmt::format("{} {}: there is no such file", args.deepspeed.flag(), word)
                          : fmt::format("{} is \"{}\"", args.deepspeed.flag(), word),
                  "expected zero0, zero1, zero2, zero3, zero2_offload, zero3_offload, or a DeepSpeed JSON file");
}

void check_stated(const Options& options, const Json& stated) {
  const TrainingArguments args(options);
  for (const auto& [name, value] : stated.items()) {
    Json ours;
    if (name == "train_batch_size")
      ours = *args.per_device_train_batch_size * *args.gradient_accumulation_steps * world_size(options);
    else if (name == "fp16" || name == "bf16")
      ours = *(name == "fp16" ? args.fp16 : args.bf16);
    else if (name == "max_grad_norm")
      ours = *args.max_grad_norm;
    else
      ours = *(name == "gradient_accumulation_steps" ? args.gradient_accumulation_steps : args.per_device_train_batch_size);
    if (ours == value || (name == "bf16" && value == true)) continue;  // bfloat16 weights are used directly
    throw UserError(ExitCode::usage,
                    fmt::format("the sharding configuration says {} is {}, the run says {}", name, value.dump(), ours.dump()),
                    "make them agree, or write \"auto\" into the configuration");
  }
}

// Megatron's string of all stages; a rank may have several.
void read_stages(const Arg<std::string>& option, int ranks, parallel::PipelineRequest& pipeline) {
  if (!option.has_value()) return;
  pipeline.blocks_of_stages = parallel::parse_pipeline_layout(*option);
  const auto stages = static_cast<int>(pipeline.blocks_of_stages.size());
  if (pipeline.chunks > 1 && pipeline.chunks * ranks != stages)
    throw UserError(ExitCode::usage,
                    fmt::format("{} has {} stages; {} ranks with {} each need {}", option.flag(), stages, ranks, pipeline.chunks,
                                pipeline.chunks * ranks),
                    "leave out the number of virtual stages: the layout says it");
  pipeline.chunks = std::max(stages / ranks, 1);
}

// Megatron's layouts as axes of the device mesh.
void read_layout(const DistributedArguments& args, train::ParallelConfig& parallel) {
  if (!args.tensor_parallel_size.exists()) return;
  auto& layout = parallel.layout;
  layout.tp = static_cast<int>(*args.tensor_parallel_size);
  layout.pp = static_cast<int>(*args.pipeline_parallel_size);
  layout.cp = static_cast<int>(*args.context_parallel_size);
  static const std::map<std::string, train::ContextParallel> kExchanges = {{"p2p", train::ContextParallel::ring},
                                                                           {"a2a", train::ContextParallel::heads},
                                                                           {"a2a+p2p", train::ContextParallel::heads_ring},
                                                                           {"all_gather", train::ContextParallel::gather}};
  parallel.context_parallel = kExchanges.at(*args.cp_comm_type);
  layout.ep = static_cast<int>(*args.expert_parallel_size);
  parallel.pipeline.chunks = static_cast<int>(*args.virtual_pipeline_parallel_size);
  parallel.pipeline.blocks_per_chunk = args.num_layers_per_virtual_pipeline_stage.value_or(0);
  parallel.pipeline.first_blocks = args.decoder_first_pipeline_num_layers.optional();
  parallel.pipeline.last_blocks = args.decoder_last_pipeline_num_layers.optional();
  parallel.pipeline.count_embedding = *args.account_for_embedding_in_pipeline_split;
  parallel.pipeline.count_loss = *args.account_for_loss_in_pipeline_split;
  read_stages(args.pipeline_model_parallel_layout, layout.pp, parallel.pipeline);
  layout.etp = static_cast<int>(args.expert_tensor_parallel_size.value_or(0));
  parallel.megatron_sequence_parallel = *args.sequence_parallel;
}

// Megatron's names for ZeRO-1 and its offload.
void read_distributed_optimizer(const DistributedArguments& args, const at::Device& device, train::ParallelConfig& parallel) {
  if (!args.use_distributed_optimizer.exists()) return;
  auto& sharding = parallel.sharding;
  const bool offloads = *args.optimizer_cpu_offload;
  if (offloads && device.is_cpu())
    log::info("{}: the model computes in host memory, and so does the optimizer", args.optimizer_cpu_offload.flag());
  if (args.optimizer_offload_fraction.is_set() && !offloads)
    log::warning("{} has no effect without {}", args.optimizer_offload_fraction.flag(), args.optimizer_cpu_offload.flag());
  if ((*args.use_distributed_optimizer && parallel.world.distributed()) || (offloads && !device.is_cpu()))
    sharding.stage = std::max(sharding.stage, 1);
  sharding.offload_optimizer = sharding.offload_optimizer || offloads;
  if (offloads) sharding.offload_fraction = *args.optimizer_offload_fraction;
}

// DeepSpeed's AutoTP, which combines with ZeRO 1 and 2.
void read_auto_tp(const DistributedArguments& args, train::ParallelConfig& parallel) {
  if (!args.deepspeed_autotp_size.has_value() || *args.deepspeed_autotp_size == 1) return;
  if (parallel.sharding.stage == 3)
    throw UserError(ExitCode::usage,
                    fmt::format("{} needs full layers, and ZeRO-3 shards them", args.deepspeed_autotp_size.flag()),
                    fmt::format("leave one of them out, or use {} zero2", args.deepspeed.flag()));
  parallel.layout.tp = static_cast<int>(*args.deepspeed_autotp_size);
}

// LLaMA-Factory's HyperParallel: FSDP2 or tensor parallelism.
void read_hyper_parallel(const DistributedArguments& args, train::ParallelConfig& parallel) {
  if (!args.use_hyper_parallel) return;
  const auto flag = args.hyper_parallel_args.flag();
  const auto given = args.hyper_parallel_args.has_value() ? *args.hyper_parallel_args : Json();
  const auto settings = as_mapping(flag, given, R"({"tp_size": 2})");
  for (const auto& [key, value] : settings.items())
    if (key != "tp_size") log::warning("{}: {} has no effect", flag, key);
  const auto ranks = json_setting(flag, settings, "tp_size", Integer(1));
  parallel.layout.tp = ranks.is_null() ? 1 : ranks.get<int>();
  parallel.layout.cp = static_cast<int>(*args.hyper_parallel_cp_size);
  if (parallel.layout.tp == 1 && parallel.sharding.stage == 0) parallel.sharding.stage = 3;
}

// Number of model replicas, and the processes that each is distributed over or sharded across.
void read_parallelism(const DistributedArguments& args, train::ParallelConfig& parallel) {
  const auto config = accelerate_parallelism(args);
  const auto size = [&](const char* key, int otherwise) {
    const auto value = json_setting("parallelism_config", config, key, Integer(1));
    return value.is_null() ? otherwise : value.get<int>();
  };
  static constexpr std::string_view kSizes[] = {"dp_replicate_size", "dp_shard_size", "tp_size", "cp_size", "sp_size"};
  for (const auto& [key, value] : config.items())
    if (std::ranges::count(kSizes, key) == 0) log::warning("parallelism_config: {} has no effect", key);
  auto& sharding = parallel.sharding;
  if (const int ranks = size("sp_size", 1); ranks > 1)
    throw UserError(ExitCode::usage, fmt::format("parallelism_config: sp_size is {}", ranks),
                    "use dp_replicate_size, dp_shard_size, tp_size and cp_size, and --sequence_parallel_size for long inputs");
  parallel.layout.cp = size("cp_size", parallel.layout.cp);
  parallel.layout.tp = size("tp_size", parallel.layout.tp);
  sharding.shard_size = size("dp_shard_size", sharding.shard_size);
  if (sharding.shard_size > 1 && sharding.stage == 0) sharding.stage = 3;
}

// What LLaMA-Factory's switches of Megatron mean here.
void report_megatron_keys(const DistributedArguments& args) {
  if (!is_reporting_process()) return;
  for (const auto& backend : {args.use_mca, args.use_megatron_bridge})
    if (backend)
      log::info("{}: Megatron's keys are options of hone's own layouts; weights are read and written as Hugging Face folders",
                backend.flag());
}

// Accelerators that a run may use: the ones it names, else all available.
int usable_devices(const Options& options) {
  const ModelArguments args(options);
  auto name = *args.devices;
  if (*args.use_cpu || launched_on_cpu(options) || name == "cpu") return 0;
  if (name.find(':') != name.npos) return 1 + static_cast<int>(std::ranges::count(name, ','));
  return at::getAccelerator() ? at::accelerator::deviceCount() : 0;
}

// On NUMA machines each process is bound to neighboring cores and allocates local memory. Slurm does this itself.
void stay_in_own_nodes(int ranks) {
  const auto nodes = numa_nodes(allowed_cores());
  if (nodes.size() < 2 || std::getenv("SLURM_PROCID")) return;
  const auto own = share_of_cores(nodes, parallel::world_from_environment().local_rank, ranks);
  if (bind_to(own)) log::debug("this process keeps to the cores {}", device::core_list(own));
}

// Processes of a machine share its cores. hone's supervisor and torchrun set OMP_NUM_THREADS; Slurm and a bare RANK do not.
void share_cores(const ModelArguments& args, train::TrainingJob& job) {
  int ranks = parallel::world_from_environment().local_size;
  if (ranks < 2) return;
  const auto share = static_cast<size_t>(parallel::cores_per_rank(ranks));
  if (job.load.device.is_cpu()) stay_in_own_nodes(ranks);
  if (job.load.device.is_cpu() && *args.threads == 0 && !std::getenv("OMP_NUM_THREADS"))
    at::set_num_threads(static_cast<int>(share));
  auto& threads = job.loader.threads;
  if (threads == 0 || (job.load.device.is_cpu() && threads > share)) threads = share;
  job.eval_loader.threads = threads;
}

}  // namespace

std::optional<ShardingRequest> sharding_request(const Options& options) {
  check_one_sharding(options);
  const DistributedArguments args(options);
  if (args.deepspeed.has_value()) return parallel::read_deepspeed(deepspeed_json(args));
  if (args.fsdp.has_value()) {
    auto made = fsdp_request(args);
    if (args.fsdp_min_num_params.is_set()) made.sharding.unit_size = *args.fsdp_min_num_params;
    return made;
  }
  return accelerate_sharding(args);
}

bool asks_for_deepspeed(const Options& options) {
  const DistributedArguments args(options);
  if (args.deepspeed.has_value() || args.fsdp.has_value()) return args.deepspeed.has_value();
  return accelerate_launches_deepspeed(args);
}

void read_parallel(const Options& options, train::TrainingJob& job) {
  const DistributedArguments args(options);
  if (uses_factory_dialect(options)) report_megatron_keys(args);
  auto& parallel = job.parallel;
  parallel.world = parallel::world_from_environment();
  if (const char* interface = std::getenv("GLOO_SOCKET_IFNAME")) parallel.process_group.socket_interface = interface;
  share_cores(ModelArguments(options), job);
  if (auto request = sharding_request(options)) {
    parallel.sharding = request->sharding;
    if (request->hybrid_shard) {
      const char* local = std::getenv("LOCAL_WORLD_SIZE");
      parallel.sharding.shard_size = local ? std::max(1, std::atoi(local)) : std::max(1, launch_of(options).processes);
    }
    if (request->recompute) job.activation_checkpointing.enabled = true;
    if (request->offload_activations) job.activation_checkpointing.offload = true;
    for (const auto& key : request->unknown) log::warning("the sharding configuration has an unknown key: {}", key);
    if (!request->without_effect.empty() && is_reporting_process())
      log::info("keys of the sharding configuration without effect: {}", fmt::join(request->without_effect, ", "));
    for (const auto& note : request->notes) log::debug("{}", note);
    check_stated(options, request->option_values);
  }
  if (args.zero_hpz_partition_size.has_value()) parallel.sharding.shard_size = static_cast<int>(*args.zero_hpz_partition_size);
  read_layout(args, parallel);
  read_distributed_optimizer(args, job.load.device, parallel);
  read_auto_tp(args, parallel);
  read_hyper_parallel(args, parallel);
  read_parallelism(args, parallel);
  if (args.ddp_bucket_cap_mb.has_value()) parallel.sharding.bucket_bytes = *args.ddp_bucket_cap_mb << 20;
  if (args.sequence_parallel_size.exists()) parallel.sequence_parallel = static_cast<int>(*args.sequence_parallel_size);
  parallel.async_save = job.trainer.async_save;
  parallel.folder_on_each_node = *OutputArguments(options).save_on_each_node;
  using std::chrono::seconds;
  auto limit = seconds(*args.ddp_timeout);
  auto silence = std::chrono::milliseconds(static_cast<int64_t>(*args.peer_timeout * 1000));
  parallel.process_group.collective_timeout = limit;
  parallel.process_group.heartbeat_timeout = std::min<std::chrono::milliseconds>(limit, silence);
  parallel.process_group.rendezvous_timeout =
      std::min<std::chrono::milliseconds>(limit, parallel.process_group.rendezvous_timeout);
}

bool uses_ray(const Options& options) { return uses_factory_dialect(options) && is_switched_on("USE_RAY"); }

parallel::LaunchConfig launch_of(const Options& options) {
  auto launch = parallel::launch_from_environment(accelerate_launch(options));
  if (launch.processes > 0 || !uses_factory_dialect(options)) return launch;
  if (const DistributedArguments args(options); uses_ray(options) && args.ray_num_workers.is_set()) {
    launch.processes = static_cast<int>(*args.ray_num_workers);
    return launch;
  }
  int devices = usable_devices(options);
  if (devices > 1 || is_switched_on("FORCE_TORCHRUN")) launch.processes = std::max(1, devices);
  return launch;
}

}  // namespace hone::cli
