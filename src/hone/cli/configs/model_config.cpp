#include "hone/cli/configs/model_config.h"

#include <fmt/ranges.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/inference/engine_quantization.h"
#include "hone/cli/configs/inference/parallel_sizes.h"
#include "hone/cli/configs/model_checks.h"
#include "hone/cli/configs/training/parallel_config.h"
#include "hone/cli/configs/training/task_config.h"
#include "hone/cli/configs/training/tuning_config.h"
#include "hone/device/device.h"

namespace hone::cli {
namespace {

bool asked(const Options& options, std::string_view name) { return options.has_option(name) && options.has(name); }

int64_t context_of(const Json& config) {
  auto context = config.value("max_position_embeddings", Json());
  if (!context.is_number_integer() || context.get<int64_t>() <= 0)
    throw UserError(ExitCode::usage, "rope_scaling: config.json names no max_position_embeddings to stretch");
  return context.get<int64_t>();
}

const char* rope_key(const Json& config) { return config.contains("rope_parameters") ? "rope_parameters" : "rope_scaling"; }

Json present_scaling(const Json& config) {
  auto scaling = config.value(rope_key(config), Json());
  return scaling.is_object() ? scaling : Json::object();
}

// The scaling as config.json would hold it: transformers 5 keeps the base frequency in the same place.
Json with_scaling(const Json& config, Json scaling, int64_t context) {
  auto before = present_scaling(config);
  if (before.contains("rope_theta")) scaling["rope_theta"] = before["rope_theta"];
  return {{rope_key(config), std::move(scaling)}, {"max_position_embeddings", context}};
}

Json asked_scaling(const Options& options) {
  const auto& value = options.setting("rope_scaling").value;
  bool name = value.is_string() && !fs::exists(options.text("rope_scaling"));
  Json scaling = name ? Json{{"rope_type", options.text("rope_scaling")}} : options.json("rope_scaling");
  if (!scaling.is_object())
    throw UserError(ExitCode::usage, fmt::format("{} is {}", options.display_name("rope_scaling"), scaling.dump()),
                    "expected a name or an object");
  if (scaling.contains("type") && !scaling.contains("rope_type")) scaling["rope_type"] = scaling["type"];
  return scaling;
}

Json swift_changes(const Options& options, const Json& config) {
  auto before = present_scaling(config);
  if (!options.has("rope_scaling")) {
    if (!before.contains("factor")) return {{"max_position_embeddings", options.integer("max_model_len")}};
    before.erase("factor");  // stretched already, and now to another length
  }
  auto scaling = options.has("rope_scaling") ? asked_scaling(options) : before;
  if (!scaling.contains("factor") && !options.has("max_model_len"))
    throw UserError(ExitCode::usage, fmt::format("{} names no factor", options.display_name("rope_scaling")),
                    "add --max_model_len, or a factor in its JSON");
  auto original = scaling.value("original_max_position_embeddings", before.value("original_max_position_embeddings", Json()));
  if (!original.is_number_integer()) original = context_of(config);
  scaling["original_max_position_embeddings"] = original;
  double trained = original.get<double>();
  if (!scaling.contains("factor"))
    scaling["factor"] = std::max(1.0, std::ceil(static_cast<double>(options.integer("max_model_len")) / trained));
  if (!scaling["factor"].is_number())
    throw UserError(ExitCode::usage,
                    fmt::format("{}: factor is {}", options.display_name("rope_scaling"), scaling["factor"].dump()),
                    "expected a number");
  auto reach = static_cast<int64_t>(trained * scaling["factor"].get<double>());
  auto context = options.has("max_model_len") ? options.integer("max_model_len") : reach;
  if (context > reach)
    log::warning("{} {} is beyond what the scaling reaches, {}", options.display_name("max_model_len"), context, reach);
  return with_scaling(config, std::move(scaling), context);
}

Json factory_changes(const Options& options, const Json& config) {
  auto before = present_scaling(config).value("original_max_position_embeddings", Json());
  auto context = before.is_number_integer() ? before.get<int64_t>() : context_of(config);
  bool trains = options.verb() & kTraining;
  auto wanted = trains ? options.integer("max_length") : 0;
  if (trains && wanted <= context) {
    log::warning("{} is ignored: {} {} fits into the model's context of {}", options.display_name("rope_scaling"),
                 options.display_name("max_length"), wanted, context);
    return Json::object();
  }
  double factor = trains ? std::ceil(static_cast<double>(wanted) / static_cast<double>(context)) : 2.0;
  auto scaling = asked_scaling(options);
  scaling["factor"] = factor;
  scaling["original_max_position_embeddings"] = context;
  if (scaling["rope_type"] == "llama3") scaling["low_freq_factor"] = 1.0, scaling["high_freq_factor"] = 4.0;
  return with_scaling(config, std::move(scaling), static_cast<int64_t>(static_cast<double>(context) * factor));
}

// Tokens as given, or the words of a .txt file.
std::vector<std::string> token_words(const Options& options, std::string_view name) {
  std::vector<std::string> words;
  for (const auto& given : asked(options, name) ? options.list(name) : std::vector<std::string>{}) {
    if (!given.ends_with(".txt")) {
      words.push_back(given);
      continue;
    }
    std::istringstream file(read_file(given));
    for (std::string word; file >> word;) words.push_back(word);
  }
  return words;
}

// new_special_tokens_config: token to description.
Json described_tokens(const Options& options) {
  if (!asked(options, "new_special_tokens_config")) return Json::object();
  auto path = options.text("new_special_tokens_config");
  auto file = read_config_file(path);
  bool texts = file.is_object() && std::all_of(file.begin(), file.end(), [](const Json& text) { return text.is_string(); });
  if (!texts) throw UserError(ExitCode::usage, fmt::format("{}: expected a mapping from token to description", path));
  return file;
}

// A folder that bitsandbytes saved: its codes are made again from what they stand for, which gives the same ones.
std::optional<ops::WeightQuantization> stored_compression(const std::filesystem::path& folder) {
  auto path = folder / "config.json";
  if (!fs::exists(path)) return std::nullopt;
  auto quantization = read_config_file(path.string()).value("quantization_config", Json());
  if (!quantization.is_object()) return std::nullopt;
  auto method = quantization.value("quant_method", Json());
  if (method != "bitsandbytes" && method != "bnb") return std::nullopt;
  if (quantization.value("load_in_8bit", Json(false)) == true) return ops::WeightQuantization{.code = ops::QuantType::int8};
  auto code = quantization.value("bnb_4bit_quant_type", Json()) == "fp4" ? ops::QuantType::fp4 : ops::QuantType::nf4;
  return ops::WeightQuantization{.code = code,
                                 .double_quant = quantization.value("bnb_4bit_use_double_quant", Json(false)) == true};
}

void check_bits(const Options& options, const std::string& method) {
  static const std::map<std::string, std::vector<std::string>> kBits{
      {"bnb", {"4", "8"}}, {"eetq", {"8"}}, {"hqq", {"1", "2", "3", "4", "5", "6", "8"}}, {"quanto", {"2", "4", "8"}}};
  auto known = kBits.find(method);
  if (known == kBits.end())
    throw UserError(ExitCode::usage, fmt::format("{} is {}", options.display_name("quant_method"), method),
                    "expected bnb, hqq, quanto or eetq; a folder in other formats is written by export and then needs no option");
  if (!std::ranges::count(known->second, options.text("quant_bits")))
    throw UserError(ExitCode::usage, fmt::format("{} is {}", options.display_name("quant_bits"), options.text("quant_bits")),
                    fmt::format("{} keeps {} bits", method, fmt::join(known->second, ", ")));
}

// Groups of weights with a scale and a zero. LLaMA-Factory's HQQ groups lie across the rows, transformers' along them.
ops::WeightQuantization grouped_compression(const Options& options, const std::string& method) {
  ops::WeightQuantization how{.code = ops::QuantType::grouped};
  how.grouped.solver = method == "hqq" ? ops::RangeMethod::half_quadratic : ops::RangeMethod::min_max;
  how.grouped.bits = std::stoi(options.text("quant_bits"));
  if (method == "hqq")
    how.grouped.axis = asked(options, "hqq_axis")      ? static_cast<int>(options.integer("hqq_axis"))
                       : uses_factory_dialect(options) ? 0
                                                       : 1;
  return how;
}

// bitsandbytes' way: the linear layers of the base in 4 or 8 bits, adapted by LoRA. Answers on a CPU have a faster way of their
// own.
std::optional<ops::WeightQuantization> compression_of(const Options& options, at::Device device) {
  if (options.verb() & kExport) return std::nullopt;  // there the bits are of what is written
  if (!asked(options, "quant_bits")) {
    if (asked(options, "quant_method"))
      throw UserError(ExitCode::usage,
                      fmt::format("{} needs {}", options.display_name("quant_method"), options.display_name("quant_bits")),
                      "4 or 8");
    return std::nullopt;
  }
  bool by_method = asked(options, "quant_method");
  auto method = by_method ? options.text("quant_method") : "bnb";
  check_bits(options, method);
  if (method == "hqq" || method == "quanto") return grouped_compression(options, method);
  if (!(options.verb() & kTraining) && !by_method && device.is_cpu()) return std::nullopt;
  if (options.text("quant_bits") == "8") return ops::WeightQuantization{.code = ops::QuantType::int8};
  auto code = options.text("bnb_4bit_quant_type") == "fp4" ? ops::QuantType::fp4 : ops::QuantType::nf4;
  return ops::WeightQuantization{.code = code, .double_quant = options.flag("bnb_4bit_use_double_quant")};
}

// LLaMA-Pro's new blocks, by ms-swift's rules.
int64_t block_stride(const Options& options, const std::filesystem::path& folder) {
  if (!options.has_option("llamapro_num_new_blocks") || options.text("tuner_type") != "llamapro") return 0;
  const int64_t layers = read_config_file((folder / "config.json").string()).value("num_hidden_layers", int64_t{0});
  const int64_t blocks = options.integer("llamapro_num_new_blocks"),
                groups = options.has("llamapro_num_groups") ? options.integer("llamapro_num_groups") : blocks;
  if (layers == 0 || layers % blocks != 0 || layers % groups != 0)
    throw UserError(ExitCode::usage,
                    fmt::format("{} new blocks in {} groups, and the model has {} layers", blocks, groups, layers),
                    fmt::format("choose {} and {} that divide the number of layers",
                                options.display_name("llamapro_num_new_blocks"), options.display_name("llamapro_num_groups")));
  return layers / groups;
}

}  // namespace

at::Device device_of(const Options& options) {
  const char* rank = std::getenv("LOCAL_RANK");
  const int own = rank ? std::max(0, std::atoi(rank)) : 0;
  if (options.flag("use_cpu") || launched_on_cpu(options)) return device::select_device("cpu");
  if (!asked(options, "device_map")) return device::select_device(options.text("devices"), own);
  const auto& map = options.setting("device_map").value;
  static constexpr std::string_view kSpread[] = {"auto", "balanced", "balanced_low_0", "sequential"};
  bool spread =
      map.is_object() ? map.size() > 1 : map.is_string() && std::ranges::count(kSpread, map.get_ref<const std::string&>());
  if (spread) return device::select_device(options.text("devices"), own);  // the first of several
  auto place = map.is_object() && map.size() == 1 && map.contains("") ? map[""] : map;
  auto name = place.is_number_integer() ? fmt::format("cuda:{}", place.get<int64_t>())
              : place.is_string()       ? place.get<std::string>()
                                        : "";
  if (name.empty() || fs::exists(name))
    throw UserError(ExitCode::usage, fmt::format("{} is {}", options.display_name("device_map"), map.dump()),
                    "expected auto, balanced, balanced_low_0, sequential, one device for the full model as in cuda:0, or an "
                    "object from module names to devices");
  return device::select_device(name, own);
}

Json config_changes(const Options& options, const std::filesystem::path& folder) {
  bool scales = asked(options, "rope_scaling");
  if (!scales && !asked(options, "max_model_len")) return Json::object();
  auto config = read_config_file((folder / "config.json").string());
  return uses_factory_dialect(options) ? factory_changes(options, config) : swift_changes(options, config);
}

model::LoadOptions load_options(const Options& options, const std::filesystem::path& folder) {
  if (auto threads = options.integer("threads"); threads > 0) at::set_num_threads(static_cast<int>(threads));
  model::LoadOptions load{.dtype = dtype_option(options, "torch_dtype"), .device = device_of(options), .changes = {}};
  check_model_type(options, folder);
  load.places = placement_of(options, folder, load.device);
  if (load.places.empty()) check_memory_limit(options, folder, load.device);
  load.changes.config = config_changes(options, folder);
  load.changes.config.update(task_changes(options, folder));
  note_new_head(options, folder);
  load.changes.value_head = value_head_folder(options, folder);
  if (options.has_option("seed")) load.changes.head_seed = static_cast<uint64_t>(options.integer("seed"));
  load.changes.block_stride = block_stride(options, folder);
  load.changes.compression = compression_of(options, load.device);
  if (!load.changes.compression) load.changes.compression = engine_compression(options, folder);
  bool frozen_base =
      options.verb() & kTraining && (options.text("tuner_type") == "lora" || options.text("tuner_type") == "longlora");
  if (!load.changes.compression && frozen_base) load.changes.compression = stored_compression(folder);
  if (load.changes.compression && !load.dtype && options.has_option("bnb_4bit_compute_dtype"))
    load.dtype = dtype_option(options, "bnb_4bit_compute_dtype");
  load.changes.experts_one_by_one = asked(options, "experts_impl") && options.text("experts_impl") == "eager";
  if (asked(options, "init_strategy")) load.changes.init_strategy = options.text("init_strategy");
  return load;
}

text::NewTokens new_tokens(const Options& options) {
  text::NewTokens tokens{.special = token_words(options, "new_special_tokens"), .plain = token_words(options, "add_tokens")};
  if (auto described = described_tokens(options); !described.empty()) {
    tokens.special.clear();
    for (const auto& [token, description] : described.items()) tokens.special.push_back(token);
  }
  return tokens;
}

model::EmbeddingResize room_for(const text::Tokenizer& tokenizer, const Options& options) {
  bool factory = uses_factory_dialect(options);
  if (new_tokens(options).empty() && !(factory && options.flag("resize_vocab"))) return {};
  const int64_t multiple = factory ? 64 : 128;
  model::EmbeddingResize growth{
      .rows = (static_cast<int64_t>(tokenizer.size()) + multiple - 1) / multiple * multiple,
      .noise = factory && !(options.has("new_special_tokens_config") && options.text("init_special_tokens") != "noise_init"),
      .described = {},
      .seed = static_cast<uint64_t>(options.integer("seed"))};
  if (!factory || options.text("init_special_tokens") == "noise_init") return growth;
  growth.noise_on_described = options.text("init_special_tokens") == "desc_init_w_noise";
  const auto described = described_tokens(options);
  for (const auto& [token, description] : described.items()) {
    auto ids = tokenizer.encode(description.get<std::string>());
    growth.described[tokenizer.id_of(token).value()] = {ids.begin(), ids.end()};
  }
  return growth;
}

std::unique_ptr<model::CausalLM> load_model(const Options& options, const std::filesystem::path& folder,
                                            const text::Tokenizer& tokenizer) {
  auto load = load_options(options, folder);
  load.changes.vocabulary = room_for(tokenizer, options);
  return model::CausalLM::load(folder, load);
}

}  // namespace hone::cli
