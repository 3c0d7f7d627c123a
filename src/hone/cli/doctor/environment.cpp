// The environment variables that guides set, and what each does here.
#include <cstdlib>

#include "hone/cli/doctor/check.h"

namespace hone::cli::doctor {
namespace {

struct Known {
  const char* name;
  Effect effect;
  const char* note;
};

constexpr Known kVariables[] = {
    {"NPROC_PER_NODE", Effect::honoured, "processes on this node"},
    {"NNODES", Effect::honoured, "nodes"},
    {"NODE_RANK", Effect::honoured, "number of this node"},
    {"RANK", Effect::honoured, "number of this process"},
    {"LOCAL_RANK", Effect::honoured, "number of this process on its node"},
    {"WORLD_SIZE", Effect::honoured, "processes in all"},
    {"MASTER_ADDR", Effect::honoured, "address of rank 0"},
    {"MASTER_PORT", Effect::honoured, "port of rank 0"},
    {"FORCE_TORCHRUN", Effect::none, "hone starts its own processes"},
    {"USE_RAY", Effect::none, "hone starts its own processes"},
    {"CUDA_VISIBLE_DEVICES", Effect::passed_on, "read by the CUDA driver"},
    {"ASCEND_RT_VISIBLE_DEVICES", Effect::passed_on, "read by CANN"},
    {"OMP_NUM_THREADS", Effect::passed_on, "read by libtorch: compute threads"},
    {"PYTORCH_CUDA_ALLOC_CONF", Effect::passed_on, "read by libtorch"},
    {"PYTORCH_NPU_ALLOC_CONF", Effect::passed_on, "read by torch_npu"},
    {"TASK_QUEUE_ENABLE", Effect::passed_on, "read by torch_npu"},
    {"ASCEND_LAUNCH_BLOCKING", Effect::passed_on, "read by torch_npu"},
    {"ASCEND_GLOBAL_LOG_LEVEL", Effect::passed_on, "read by CANN"},
    {"ASCEND_SLOG_PRINT_TO_STDOUT", Effect::passed_on, "read by CANN"},
    {"ASCEND_HOME_PATH", Effect::passed_on, "read by CANN"},
    {"HCCL_CONNECT_TIMEOUT", Effect::passed_on, "read by HCCL"},
    {"HCCL_EXEC_TIMEOUT", Effect::passed_on, "read by HCCL"},
    {"HCCL_IF_IP", Effect::passed_on, "read by HCCL"},
    {"HCCL_SOCKET_IFNAME", Effect::passed_on, "read by HCCL"},
    {"HCCL_BUFFSIZE", Effect::passed_on, "read by HCCL"},
    {"HCCL_DETERMINISTIC", Effect::passed_on, "read by HCCL"},
    {"HCCL_OP_EXPANSION_MODE", Effect::passed_on, "read by HCCL"},
    {"HCCL_WHITELIST_DISABLE", Effect::passed_on, "read by HCCL"},
    {"NCCL_DEBUG", Effect::passed_on, "read by NCCL"},
    {"NCCL_P2P_DISABLE", Effect::passed_on, "read by NCCL"},
    {"NCCL_IB_DISABLE", Effect::passed_on, "read by NCCL"},
    {"NCCL_SOCKET_IFNAME", Effect::passed_on, "read by NCCL"},
    {"USE_HF", Effect::honoured, "look on Hugging Face: --use_hf"},
    {"HF_HOME", Effect::honoured, "Hugging Face cache"},
    {"HF_HUB_CACHE", Effect::honoured, "Hugging Face cache"},
    {"MODELSCOPE_CACHE", Effect::honoured, "ModelScope cache"},
    {"XDG_CACHE_HOME", Effect::honoured, "parent of the caches"},
    {"HF_ENDPOINT", Effect::none, "this version downloads nothing"},
    {"HF_TOKEN", Effect::none, "this version downloads nothing"},
    {"HF_HUB_OFFLINE", Effect::none, "this version downloads nothing"},
    {"USE_MODELSCOPE_HUB", Effect::none, "this version downloads nothing; both caches are searched"},
    {"LOG_LEVEL", Effect::honoured, "--log_level"},
    {"NO_COLOR", Effect::honoured, "no colours"},
    {"COLUMNS", Effect::honoured, "width of tables"},
    {"ALLOW_EXTRA_ARGS", Effect::honoured, "unknown options are warnings"},
    {"DISABLE_VERSION_CHECK", Effect::none, "there is no Python stack to check"},
    {"FORCE_CHECK_IMPORTS", Effect::none, "there is no Python stack to check"},
    {"LLAMAFACTORY_VERBOSITY", Effect::none, "use LOG_LEVEL"},
    {"USE_V1", Effect::none, "hone follows LLaMA-Factory's default generation of keys"},
    {"TOKENIZERS_PARALLELISM", Effect::none, "see --dataset_num_proc"},
    {"MAX_PIXELS", Effect::none, "images are not in this version"},
    {"MIN_PIXELS", Effect::none, "images are not in this version"},
    {"VIDEO_MAX_PIXELS", Effect::none, "video is not in this version"},
    {"FPS_MAX_FRAMES", Effect::none, "video is not in this version"},
    {"WANDB_PROJECT", Effect::none, "wandb is not written in this version"},
    {"WANDB_API_KEY", Effect::none, "wandb is not written in this version"},
    {"SWANLAB_API_KEY", Effect::none, "swanlab is not written in this version"},
    {"VLLM_USE_V1", Effect::none, "hone serves by its own engine"},
    {"VLLM_WORKER_MULTIPROC_METHOD", Effect::none, "hone serves by its own engine"},
    {"SWIFT_PATCH_CONV3D", Effect::none, "hone needs no patches"},
    {"HONE_FAULT", Effect::honoured, "makes the program fail at a named point, for tests"},
};

}  // namespace

std::vector<Variable> known_variables_set() {
  std::vector<Variable> out;
  for (const auto& known : kVariables) {
    const char* value = std::getenv(known.name);
    if (!value) continue;
    std::string name = known.name;
    bool secret = name.find("TOKEN") != std::string::npos || name.find("KEY") != std::string::npos;
    if (name == "TOKENIZERS_PARALLELISM") secret = false;
    out.push_back({name, secret ? "(hidden)" : value, known.note, known.effect});
  }
  return out;
}

}  // namespace hone::cli::doctor
