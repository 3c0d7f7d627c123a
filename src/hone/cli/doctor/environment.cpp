// The environment variables that guides set, and what each does here.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "hone/cli/doctor/check.h"
#include "hone/cli/table.h"

namespace hone::cli::doctor {
namespace {

struct Known {
  const char* name;
  Effect effect;
  const char* note;
};

constexpr Known kVariables[] = {
    {"NPROC_PER_NODE", Effect::supported, "processes on this node"},
    {"NNODES", Effect::supported, "nodes"},
    {"NODE_RANK", Effect::supported, "number of this node"},
    {"RANK", Effect::supported, "number of this process"},
    {"LOCAL_RANK", Effect::supported, "number of this process on its node"},
    {"WORLD_SIZE", Effect::supported, "processes in all"},
    {"MASTER_ADDR", Effect::supported, "address of rank 0"},
    {"MASTER_PORT", Effect::supported, "port of rank 0"},
    {"FORCE_TORCHRUN", Effect::supported, "one process per device, as LLaMA-Factory starts them"},
    {"USE_RAY", Effect::supported, "ray_num_workers processes, on a Ray cluster where ray_init_kwargs and the like name one"},
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
    {"RANK_TABLE_FILE", Effect::supported, "checked against the run; ranks are joined without it"},
    {"CPU_AFFINITY_CONF", Effect::passed_on, "read by torch_npu; unset, hone keeps a process on the cores near its card"},
    {"NCCL_DEBUG", Effect::passed_on, "read by NCCL"},
    {"NCCL_P2P_DISABLE", Effect::passed_on, "read by NCCL"},
    {"NCCL_IB_DISABLE", Effect::passed_on, "read by NCCL"},
    {"NCCL_SOCKET_IFNAME", Effect::passed_on, "read by NCCL"},
    {"USE_HF", Effect::supported, "look on Hugging Face: --use_hf"},
    {"HF_HOME", Effect::supported, "Hugging Face cache"},
    {"HF_HUB_CACHE", Effect::supported, "Hugging Face cache"},
    {"MODELSCOPE_CACHE", Effect::supported, "ModelScope cache"},
    {"XDG_CACHE_HOME", Effect::supported, "parent of the caches"},
    {"HF_ENDPOINT", Effect::supported, "address of Hugging Face or a mirror"},
    {"HF_TOKEN", Effect::supported, "token for Hugging Face"},
    {"HF_TOKEN_PATH", Effect::supported, "file with the token for Hugging Face"},
    {"HF_HUB_OFFLINE", Effect::supported, "no downloads, from either hub"},
    {"TRANSFORMERS_OFFLINE", Effect::supported, "no downloads, from either hub"},
    {"HF_HUB_DOWNLOAD_TIMEOUT", Effect::supported, "seconds without a byte before trying again"},
    {"USE_MODELSCOPE_HUB", Effect::supported, "download from ModelScope"},
    {"USE_OPENMIND_HUB", Effect::none, "download from ModelScope or Hugging Face"},
    {"MODELSCOPE_ENDPOINT", Effect::supported, "address of ModelScope"},
    {"MODELSCOPE_DOMAIN", Effect::supported, "address of ModelScope"},
    {"MODELSCOPE_API_TOKEN", Effect::supported, "token for ModelScope"},
    {"MODELSCOPE_DOWNLOAD_TIMEOUT", Effect::supported, "seconds without a byte before trying again"},
    {"LOG_LEVEL", Effect::supported, "--log_level"},
    {"NO_COLOR", Effect::supported, "no colours"},
    {"COLUMNS", Effect::supported, "width of tables"},
    {"ALLOW_EXTRA_ARGS", Effect::supported, "unknown options are warnings"},
    {"DISABLE_VERSION_CHECK", Effect::none, "there is no Python stack to check"},
    {"FORCE_CHECK_IMPORTS", Effect::none, "there is no Python stack to check"},
    {"LLAMAFACTORY_VERBOSITY", Effect::none, "use LOG_LEVEL"},
    {"USE_V1", Effect::supported, "LLaMA-Factory's second generation of keys and commands: sft, dpo, rm, merge, chat"},
    {"TOKENIZERS_PARALLELISM", Effect::none, "see --dataset_num_proc"},
    {"MAX_NUM", Effect::supported, "most tiles of an image (InternVL)"},
    {"MAX_PIXELS", Effect::supported, "pixels of the largest image"},
    {"IMAGE_MAX_TOKEN_NUM", Effect::supported, "tokens of the largest image"},
    {"IMAGE_MIN_TOKEN_NUM", Effect::supported, "tokens of the smallest image"},
    {"MIN_PIXELS", Effect::supported, "pixels of the smallest image"},
    {"VIDEO_MAX_PIXELS", Effect::supported, "pixels of a video's largest frame"},
    {"VIDEO_MIN_PIXELS", Effect::supported, "pixels of a video's smallest frame"},
    {"VIDEO_MAX_TOKEN_NUM", Effect::supported, "tokens of a video's largest frame"},
    {"VIDEO_MIN_TOKEN_NUM", Effect::supported, "tokens of a video's smallest frame"},
    {"FPS", Effect::supported, "frames that are taken from a second of video"},
    {"FPS_MAX_FRAMES", Effect::supported, "most frames of a video file"},
    {"FPS_MIN_FRAMES", Effect::supported, "fewest frames of a video file"},
    {"MODEL_SEQ_LEN", Effect::supported, "tokens that the frames of a video share"},
    {"FORCE_QWENVL_VIDEO_READER", Effect::none, "FFmpeg's libraries read video files"},
    {"LOCAL_WORLD_SIZE", Effect::supported, "processes on this node"},
    {"MIN_NNODES", Effect::supported, "fewest nodes of an elastic run"},
    {"MAX_NNODES", Effect::supported, "most nodes of an elastic run"},
    {"MAX_RESTARTS", Effect::supported, "--max_restarts: restarts after a lost process"},
    {"RDZV_ID", Effect::none, "nodes join at MASTER_ADDR and MASTER_PORT"},
    {"OPTIM_TORCH", Effect::none, "hone sets its allocator up itself"},
    {"USE_MCA", Effect::supported, "--use_mca: Megatron's keys in LLaMA-Factory's files, for hone's own layouts"},
    {"USE_MEGATRON_BRIDGE", Effect::supported,
     "--use_megatron_bridge: Megatron's keys in LLaMA-Factory's files; models stay Hugging Face folders"},
    {"USE_KT", Effect::supported, "--use_kt: experts in host memory"},
    {"SWIFT_SINGLE_DEVICE_MODE", Effect::none, "a process uses the device of its rank"},
    {"SWIFT_DEBUG", Effect::none, "use LOG_LEVEL=debug"},
    {"SWIFT_UPDATE_WEIGHTS_BUCKET_SIZE", Effect::none, "weights are shared with the engine, not sent"},
    {"RANDOM_DATASET_RESPONSE", Effect::none, "of a list of answers the first is taken"},
    {"MAX_POSITIVE_SAMPLES", Effect::supported, "relevant candidates of a reranker's row in a batch"},
    {"MAX_NEGATIVE_SAMPLES", Effect::supported, "other candidates of each of them"},
    {"INFONCE_TEMPERATURE", Effect::supported, "temperature of --loss_type infonce"},
    {"INFONCE_USE_BATCH", Effect::supported, "texts of other rows are negatives too"},
    {"INFONCE_HARD_NEGATIVES", Effect::supported, "exact number of negatives per row"},
    {"INFONCE_MASK_FAKE_NEGATIVE", Effect::supported, "negatives far above the positive do not count"},
    {"INFONCE_FAKE_NEG_MARGIN", Effect::supported, "how far above"},
    {"INFONCE_INCLUDE_QQ", Effect::supported, "other anchors are negatives too"},
    {"INFONCE_INCLUDE_DD", Effect::supported, "what is like the positive is a negative too"},
    {"LISTWISE_RERANKER_TEMPERATURE", Effect::supported, "temperature of --loss_type listwise_reranker"},
    {"LISTWISE_RERANKER_MIN_GROUP_SIZE", Effect::supported, "fewest candidates of a question that counts"},
    {"GENERATIVE_RERANKER_POSITIVE_TOKEN", Effect::supported, "the token of a relevant candidate"},
    {"GENERATIVE_RERANKER_NEGATIVE_TOKEN", Effect::supported, "the token of another one"},
    {"ENABLE_AUDIO_OUTPUT", Effect::none, "answers are text; the talker is carried along untouched"},
    {"VIDEO_SEGMENTS", Effect::supported, "frames of a video file (InternVL)"},
    {"VIDEO_MAX_NUM", Effect::supported, "most tiles of a frame, and of an image next to a video (InternVL)"},
    {"NUM_FRAMES", Effect::supported, "frames of a video file (Ovis2.5)"},
    {"USE_AUDIO_IN_VIDEO", Effect::supported, "--use_audio_in_video: videos are read with their sound (Omni)"},
    {"SAMPLING_RATE", Effect::none, "recordings are resampled to 16,000 samples a second"},
    {"IMAGE_PLACEHOLDER", Effect::none, "the mark is <image>"},
    {"VIDEO_PLACEHOLDER", Effect::none, "the mark is <video>"},
    {"AUDIO_PLACEHOLDER", Effect::none, "the mark is <audio>"},
    {"RECORD_VRAM", Effect::none, "memory is always logged"},
    {"NPU_JIT_COMPILE", Effect::none, "operators are never compiled at run time"},
    {"LLAMABOARD_ENABLED", Effect::none, "hone writes what LLaMA Board reads in any case"},
    {"LLAMABOARD_WORKDIR", Effect::none, "hone writes what LLaMA Board reads in any case"},
    {"MEGATRON_LM_PATH", Effect::none, "hone needs no Megatron"},
    {"ACL_OP_INIT_MODE", Effect::passed_on, "read by torch_npu"},
    {"COMBINED_ENABLE", Effect::passed_on, "read by torch_npu"},
    {"INF_NAN_MODE_ENABLE", Effect::passed_on, "read by torch_npu"},
    {"INF_NAN_MODE_FORCE_DISABLE", Effect::passed_on, "read by torch_npu"},
    {"MULTI_STREAM_MEMORY_REUSE", Effect::passed_on, "read by torch_npu"},
    {"PER_STREAM_QUEUE", Effect::passed_on, "read by torch_npu"},
    {"STREAMS_PER_DEVICE", Effect::passed_on, "read by torch_npu"},
    {"ALLOW_HF32", Effect::passed_on, "read by torch_npu"},
    {"PYTORCH_NO_NPU_MEMORY_CACHING", Effect::passed_on, "read by torch_npu"},
    {"PYTORCH_ALLOC_CONF", Effect::passed_on, "read by libtorch"},
    {"P2P_HCCL_BUFFSIZE", Effect::passed_on, "read by torch_npu"},
    {"NFRAMES", Effect::none, "see FPS, FPS_MIN_FRAMES and FPS_MAX_FRAMES"},
    {"ROOT_IMAGE_DIR", Effect::supported, "folder of images that are given by relative paths"},
    {"QWENVL_BBOX_FORMAT", Effect::supported, "new: boxes and names in objects without Qwen's special tokens"},
    {"SWIFT_TIMEOUT", Effect::supported, "seconds that fetching an image or a video may take"},
    {"SWIFT_MAX_DOWNLOAD_SIZE_MB", Effect::supported, "the largest image or video that is fetched"},
    {"SWIFT_ALLOW_INTERNAL_URL", Effect::supported, "1: rows may name addresses of this machine and its network"},
    {"SWIFT_URL_ALLOWED_HOSTS", Effect::supported,
     "hosts from which a server fetches media that requests name; *: any; unset: none"},
    {"SAFE_MEDIA_PATH", Effect::none, "a request names no files: images come as data: URIs"},
    {"GRADIO_SHARE", Effect::none, "pages are served by hone itself, on this machine"},
    {"GRADIO_SERVER_NAME", Effect::supported, "--server_name of llamafactory-cli webchat"},
    {"GRADIO_SERVER_PORT", Effect::supported, "--server_port of llamafactory-cli webchat"},
    {"GRADIO_IPV6", Effect::none, "see --server_name"},
    {"API_HOST", Effect::supported, "--host of llamafactory-cli api"},
    {"API_PORT", Effect::supported, "--port of llamafactory-cli api"},
    {"API_KEY", Effect::supported, "--api_key of llamafactory-cli api"},
    {"API_MODEL_NAME", Effect::supported, "--served_model_name of llamafactory-cli api"},
    {"API_VERBOSE", Effect::none, "see --verbose"},
    {"MAX_CONCURRENT", Effect::none, "requests are batched as they come"},
    {"FASTAPI_ROOT_PATH", Effect::none, "routes are at the root"},
    {"ACCELERATE_MIXED_PRECISION", Effect::supported, "bf16 or fp16, where the run itself says neither"},
    {"CUDA_LAUNCH_BLOCKING", Effect::passed_on, "read by the CUDA runtime"},
    {"HONE_FAULT", Effect::supported, "makes the program fail at a named point, for tests"},
    {"HONE_HISTORY", Effect::supported, "file that keeps the lines typed in chats; none when it is empty"},
    {"HONE_TORCH_NPU", Effect::supported, "folder that holds the package torch_npu"},
};

// Groups of variables that are read by a library.
struct Family {
  std::string_view prefix;
  Effect effect;
  const char* note;
};
constexpr Family kFamilies[] = {
    {"HCCL_", Effect::passed_on, "read by HCCL"},
    {"NCCL_", Effect::passed_on, "read by NCCL"},
    {"TORCH_HCCL_", Effect::passed_on, "read by torch_npu"},
    {"TORCH_NPU_", Effect::passed_on, "read by torch_npu"},
    {"TORCH_NCCL_", Effect::passed_on, "read by libtorch"},
    {"GLOO_", Effect::passed_on, "read by Gloo"},
    {"HONE_EMULATED_", Effect::passed_on, "read by the emulated CANN"},
    {"ASCEND_", Effect::passed_on, "read by CANN"},
    {"MKL_", Effect::passed_on, "read by MKL"},
    {"SWIFT_PATCH_", Effect::none, "hone needs no patches"},
    {"WANDB_", Effect::none, "wandb is not written in this version"},
    {"SWANLAB_", Effect::none, "read by swanlab's own program, which imports a run"},
    {"VLLM_", Effect::none, "hone serves by its own engine"},
    {"SGLANG_", Effect::none, "hone serves by its own engine"},
};

bool is_secret(std::string_view name) {
  bool secret = name.find("TOKEN") != name.npos || name.find("KEY") != name.npos;
  return secret && name != "TOKENIZERS_PARALLELISM" && name != "HF_TOKEN_PATH";
}

std::string shown_value(std::string_view name, std::string_view value) {
  return is_secret(name) && !value.empty() ? "(hidden)" : std::string(value);
}

}  // namespace

std::vector<Variable> known_variables() {
  std::map<std::string, Variable> found;
  const auto entry_of = [&](std::string_view name) -> Variable& {
    auto& entry = found[std::string(name)];
    entry.name = name;
    if (const char* value = std::getenv(entry.name.c_str())) entry.value = shown_value(name, value);
    return entry;
  };
  for (const auto& option : options_table()) {
    if (option.variable.empty() || option.status != Status::supported) continue;
    auto& entry = entry_of(option.variable);
    entry.note += fmt::format("{}--{}", entry.note.empty() ? "" : ", ", option.name);
    entry.effect = Effect::supported;
  }
  for (const auto& known : kVariables) {  // which say more than the name of an option
    auto& entry = entry_of(known.name);
    entry.note = known.note;
    entry.effect = known.effect;
  }
  std::vector<Variable> list;
  for (auto& [name, variable] : found) list.push_back(std::move(variable));
  for (const auto& family : kFamilies) list.push_back({std::string(family.prefix) + "*", "", family.note, family.effect});
  return list;
}

std::vector<Variable> known_variables_set() {
  auto known = known_variables();
  std::vector<Variable> set;
  for (char** entry = environ; entry && *entry; ++entry) {
    std::string_view text = *entry;
    auto name = text.substr(0, text.find('='));
    auto exact = std::ranges::find(known, name, &Variable::name);
    if (exact != known.end()) {
      set.push_back(*exact);
      continue;
    }
    auto family = std::ranges::find_if(kFamilies, [&](const Family& f) { return name.starts_with(f.prefix); });
    if (family == std::end(kFamilies)) continue;
    auto value = text.substr(std::min(name.size() + 1, text.size()));
    set.push_back({std::string(name), shown_value(name, value), family->note, family->effect});
  }
  std::ranges::sort(set, {}, &Variable::name);
  return set;
}

}  // namespace hone::cli::doctor
