#include "hone/cli/configs/model_config.h"

#include <fmt/ranges.h>

#include <cstdlib>
#include <map>
#include <sstream>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/base/model_file.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/tuners.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/inference/engine_quantization.h"
#include "hone/cli/configs/inference/parallel_sizes.h"
#include "hone/cli/configs/model_checks.h"
#include "hone/cli/configs/rope_scaling.h"
#include "hone/cli/configs/training/accelerate_config.h"
#include "hone/cli/configs/training/task_config.h"
#include "hone/cli/configs/training/tuning_config.h"
#include "hone/device/device.h"
#include "hone/ops/npu/boxed.h"

namespace hone::cli {
namespace {

// Tokens as given, or one per line of a .txt file.
std::vector<std::string> token_words(const Arg<std::vector<std::string>>& option) {
  std::vector<std::string> words;
  for (const auto& given : *option) {
    if (!given.ends_with(".txt")) {
      words.push_back(given);
      continue;
    }
    std::istringstream file(read_file(given));
    for (std::string word; file >> word;) words.push_back(word);
  }
  return words;
}

// new_special_tokens_config: maps a token to its description.
Json described_tokens(const ModelArguments& args) {
  if (!args.new_special_tokens_config.has_value()) return Json::object();
  auto path = *args.new_special_tokens_config;
  auto file = read_config_file(path);
  bool texts = file.is_object() && std::all_of(file.begin(), file.end(), [](const Json& text) { return text.is_string(); });
  if (!texts) throw UserError(ExitCode::usage, fmt::format("{}: expected a mapping from token to description", path));
  return file;
}

// A folder saved by bitsandbytes: dequantizing and quantizing again gives the same codes.
std::optional<ops::WeightQuantization> stored_compression(const std::filesystem::path& folder) {
  auto path = folder / "config.json";
  if (!fs::exists(path)) return std::nullopt;
  auto quantization = read_model_file(path).value("quantization_config", Json());
  if (!quantization.is_object()) return std::nullopt;
  auto method = quantization.value("quant_method", Json());
  if (method != "bitsandbytes" && method != "bnb") return std::nullopt;
  if (quantization.value("load_in_8bit", Json(false)) == true) return ops::WeightQuantization{.code = ops::QuantType::int8};
  auto code = quantization.value("bnb_4bit_quant_type", Json()) == "fp4" ? ops::QuantType::fp4 : ops::QuantType::nf4;
  return ops::WeightQuantization{.code = code,
                                 .double_quant = quantization.value("bnb_4bit_use_double_quant", Json(false)) == true};
}

void check_bits(const ModelArguments& args, const std::string& method) {
  static const std::map<std::string, std::vector<std::string>> kBits{
      {"bnb", {"4", "8"}}, {"eetq", {"8"}}, {"hqq", {"1", "2", "3", "4", "5", "6", "8"}}, {"quanto", {"2", "4", "8"}}};
  auto known = kBits.find(method);
  if (known == kBits.end())
    throw UserError(ExitCode::usage, fmt::format("{} is {}", args.quant_method.flag(), method),
                    "expected bnb, hqq, quanto or eetq; a folder in other formats is written by export and then needs no option");
  if (!std::ranges::count(known->second, *args.quant_bits))
    throw UserError(ExitCode::usage, fmt::format("{} is {}", args.quant_bits.flag(), *args.quant_bits),
                    fmt::format("{} keeps {} bits", method, fmt::join(known->second, ", ")));
}

// Group-wise quantization with a scale and a zero point. LLaMA-Factory's HQQ groups run across rows, transformers' along rows.
ops::WeightQuantization grouped_compression(const ModelArguments& args, const std::string& method) {
  ops::WeightQuantization how{.code = ops::QuantType::grouped};
  how.grouped.solver = method == "hqq" ? ops::RangeMethod::half_quadratic : ops::RangeMethod::min_max;
  how.grouped.bits = std::stoi(*args.quant_bits);
  if (method == "hqq")
    how.grouped.axis = args.hqq_axis.has_value() ? static_cast<int>(*args.hqq_axis) : args.uses_factory_dialect() ? 0 : 1;
  return how;
}

// bitsandbytes: the base model's linear layers in 4 or 8 bits, trained with LoRA. Inference on a CPU has a faster path.
std::optional<ops::WeightQuantization> compression_of(const ModelArguments& args, at::Device device) {
  if (args.verb() & kExport) return std::nullopt;  // there it is the number of bits to write
  if (!args.quant_bits.has_value()) {
    if (args.quant_method.has_value())
      throw UserError(ExitCode::usage, fmt::format("{} needs {}", args.quant_method.flag(), args.quant_bits.flag()), "4 or 8");
    return std::nullopt;
  }
  bool by_method = args.quant_method.has_value();
  auto method = by_method ? *args.quant_method : "bnb";
  check_bits(args, method);
  if (method == "hqq" || method == "quanto") return grouped_compression(args, method);
  if (!(args.verb() & kTraining) && !by_method && device.is_cpu()) return std::nullopt;
  if (*args.quant_bits == "8") return ops::WeightQuantization{.code = ops::QuantType::int8};
  auto code = *args.bnb_4bit_quant_type == "fp4" ? ops::QuantType::fp4 : ops::QuantType::nf4;
  return ops::WeightQuantization{.code = code, .double_quant = *args.bnb_4bit_use_double_quant};
}

// The new blocks of LLaMA-Pro, by ms-swift's rules.
int64_t block_stride(const TunerArguments& args, const std::filesystem::path& folder) {
  if (!args.llamapro_num_new_blocks.exists() || *args.tuner_type != "llamapro") return 0;
  const auto config = model::read_config(folder);
  if (config.linear_attention)
    throw UserError(ExitCode::usage,
                    fmt::format("{} {}: {} has layers of linear attention, next to which blocks cannot be inserted",
                                args.tuner_type.flag(), *args.tuner_type, folder.string()),
                    "use lora, full or freeze");
  const int64_t layers = config.layers;
  const int64_t blocks = *args.llamapro_num_new_blocks, groups = args.llamapro_num_groups.value_or(blocks);
  if (layers == 0 || layers % blocks != 0 || layers % groups != 0)
    throw UserError(ExitCode::usage,
                    fmt::format("{} new blocks in {} groups, and the model has {} layers", blocks, groups, layers),
                    fmt::format("choose {} and {} that divide the number of layers", args.llamapro_num_new_blocks.flag(),
                                args.llamapro_num_groups.flag()));
  const int64_t stride = layers / groups;
  if (config.vision && stride < static_cast<int64_t>(config.vision->deepstack_blocks.size()))
    throw UserError(
        ExitCode::usage,
        fmt::format("a new block after every {}: {} adds deepstack features to the outputs of its first {} layers, "
                    "between which blocks cannot be inserted",
                    stride, folder.string(), config.vision->deepstack_blocks.size()),
        fmt::format("lower {}",
                    (args.llamapro_num_groups.has_value() ? args.llamapro_num_groups : args.llamapro_num_new_blocks).flag()));
  return stride;
}

bool keeps_experts_on_host(const ModelArguments& args, const std::filesystem::path& folder) {
  if (!*args.use_kt) return false;
  if (model::read_config(folder).experts.count == 0)
    throw UserError(ExitCode::usage, fmt::format("{}: {} has no experts", args.use_kt.flag(), folder.string()), "leave it out");
  return true;
}

}  // namespace

at::Device device_of(const Options& options) {
  const ModelArguments args(options);
  const char* rank = std::getenv("LOCAL_RANK");
  const int own = rank ? std::max(0, std::atoi(rank)) : 0;
  if (*args.use_cpu || launched_on_cpu(options)) return device::select_device("cpu");
  if (!args.device_map.has_value()) return device::select_device(*args.devices, own);
  const auto& map = args.device_map.raw();
  static constexpr std::string_view kSpread[] = {"auto", "balanced", "balanced_low_0", "sequential"};
  bool spread =
      map.is_object() ? map.size() > 1 : map.is_string() && std::ranges::count(kSpread, map.get_ref<const std::string&>());
  if (spread) return device::select_device(*args.devices, own);  // the first one
  auto place = map.is_object() && map.size() == 1 && map.contains("") ? map[""] : map;
  auto name = place.is_number_integer() ? fmt::format("cuda:{}", place.get<int64_t>())
              : place.is_string()       ? place.get<std::string>()
                                        : "";
  if (name.empty() || fs::exists(name))
    throw UserError(ExitCode::usage, fmt::format("{} is {}", args.device_map.flag(), map.dump()),
                    "expected auto, balanced, balanced_low_0, sequential, one device for the full model as in cuda:0, or an "
                    "object from module names to devices");
  return device::select_device(name, own);
}

model::LoadOptions load_options(const Options& options, const std::filesystem::path& folder) {
  const ModelArguments model_args(options);
  const TunerArguments tuner_args(options);
  if (auto threads = *model_args.threads; threads > 0) at::set_num_threads(static_cast<int>(threads));
  model::LoadOptions load{.dtype = dtype_option(model_args.torch_dtype), .device = device_of(options), .changes = {}};
  check_model_type(options, folder);
  load.device_map = placement_of(options, folder, load.device);
  if (load.device_map.empty()) check_memory_limit(options, folder, load.device);
  load.changes.config = rope_scaling_changes(options, folder);
  load.changes.config.update(task_changes(options, folder));
  note_new_head(options, folder);
  load.changes.value_head = value_head_folder(options, folder);
  if (model_args.seed.exists()) load.changes.head_seed = static_cast<uint64_t>(*model_args.seed);
  load.changes.block_stride = block_stride(tuner_args, folder);
  load.changes.compression = compression_of(model_args, load.device);
  if (!load.changes.compression) load.changes.compression = engine_compression(options, folder);
  const bool frozen_base = options.verb() & kTraining && trains_lora(*tuner_args.tuner_type);
  if (!load.changes.compression && frozen_base) load.changes.compression = stored_compression(folder);
  if (load.changes.compression && !load.dtype && model_args.bnb_4bit_compute_dtype.exists())
    load.dtype = dtype_option(model_args.bnb_4bit_compute_dtype);
  load.changes.experts_one_by_one = model_args.experts_impl.has_value() && *model_args.experts_impl == "eager";
  load.changes.experts_on_host = keeps_experts_on_host(model_args, folder);
  load.changes.routers_in_float32 = model_args.moe_router_dtype.exists() && *model_args.moe_router_dtype == "fp32";
  if (model_args.init_strategy.has_value()) load.changes.init_strategy = *model_args.init_strategy;
  return load;
}

text::NewTokens new_tokens(const Options& options) {
  const ModelArguments args(options);
  text::NewTokens tokens{.special = token_words(args.new_special_tokens), .plain = token_words(args.add_tokens)};
  if (auto described = described_tokens(args); !described.empty()) {
    tokens.special.clear();
    for (const auto& [token, description] : described.items()) tokens.special.push_back(token);
  }
  return tokens;
}

VocabularyConfig vocabulary_config(const Options& options) {
  const ModelArguments args(options);
  const bool factory = args.uses_factory_dialect();
  VocabularyConfig config{.grows = (factory && *args.resize_vocab) || !new_tokens(options).empty(), .factory = factory};
  if (!config.grows) return config;
  if (factory) config.init_special_tokens = *args.init_special_tokens;
  config.has_descriptions = args.new_special_tokens_config.has_value();
  config.described = described_tokens(args);
  config.seed = static_cast<uint64_t>(*args.seed);
  return config;
}

model::EmbeddingResize room_for(const text::Tokenizer& tokenizer, const VocabularyConfig& config) {
  if (!config.grows) return {};
  const bool noise = config.init_special_tokens == "noise_init";
  const int64_t multiple = config.factory ? 64 : 128;
  model::EmbeddingResize growth{.rows = (static_cast<int64_t>(tokenizer.size()) + multiple - 1) / multiple * multiple,
                                .noise = config.factory && (!config.has_descriptions || noise),
                                .described = {},
                                .seed = config.seed};
  if (!config.factory || noise) return growth;
  growth.noise_on_described = config.init_special_tokens == "desc_init_w_noise";
  for (const auto& [token, description] : config.described.items()) {
    auto ids = tokenizer.encode(description.get<std::string>());
    growth.described[tokenizer.id_of(token).value()] = {ids.begin(), ids.end()};
  }
  return growth;
}

std::unique_ptr<model::CausalLM> load_model(const Options& options, const std::filesystem::path& folder,
                                            const text::Tokenizer& tokenizer) {
  auto load = load_options(options, folder);
  load.changes.vocabulary = room_for(tokenizer, vocabulary_config(options));
  return model::CausalLM::load(folder, load);
}

void choose_npu_kernels(const Options& options) {
  const ModelArguments args(options);
  auto& fusion = ops::npu::fusion();
  fusion.attention = *args.attn_impl != "eager";
  if (args.enable_npu_model_patch.exists()) fusion.blocks = *args.enable_npu_model_patch;
}

}  // namespace hone::cli
