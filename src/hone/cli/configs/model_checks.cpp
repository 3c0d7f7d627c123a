#include "hone/cli/configs/model_checks.h"

#include <cmath>

#include "hone/base/json.h"
#include "hone/base/model_file.h"
#include "hone/base/progress.h"
#include "hone/base/strings/counted.h"
#include "hone/cli/arguments/model.h"

namespace hone::cli {
namespace {

// ms-swift names generations and fine-tunes after the family, qwen2_5_math or llama3_1; multimodal families are separate.
constexpr std::string_view kFamilies[] = {"llama", "mistral", "mixtral", "qwen2", "qwen3"};
constexpr std::string_view kOtherKinds[] = {"_vl", "_moe", "_audio", "_omni", "_vision", "_next"};

std::string_view family_named(std::string_view model_type) {
  for (auto family : kFamilies)
    if (model_type.starts_with(family)) return family;
  return "";
}

std::string_view kind_named(std::string_view model_type) {
  for (auto kind : kOtherKinds)
    if (model_type.find(kind) != std::string_view::npos) return kind;
  return "";
}

double bytes_of(const Json& amount) {
  if (amount.is_number()) return amount.get<double>();
  const std::string text = amount.is_string() ? amount.get<std::string>() : "";
  size_t digits = 0;
  double number = 0;
  try {
    number = std::stod(text, &digits);
  } catch (const std::exception&) {
    digits = 0;
  }
  const std::string unit = text.substr(digits);
  constexpr std::string_view kUnits = "KMGT";
  const bool binary = unit.ends_with("iB");
  const size_t power = unit.empty() || unit == "B" ? 0 : kUnits.find(unit.front()) + 1;
  if (digits == 0 || power > kUnits.size() || number <= 0)
    throw UserError(ExitCode::usage, fmt::format("max_memory holds {}", amount.dump()),
                    "expected amounts such as \"20GB\" or \"20GiB\"");
  return number * std::pow(binary ? 1024.0 : 1000.0, static_cast<double>(power));
}

}  // namespace

void check_model_type(const Options& options, const std::filesystem::path& folder) {
  check_model_type(ModelArguments(options).model_type, folder);
}

void check_model_type(const Arg<std::string>& type, const std::filesystem::path& folder) {
  if (!type.is_set() || *type == "auto") return;
  const auto config = folder / "config.json";
  if (!std::filesystem::exists(config)) return;
  const auto stated = read_model_file(config).value("model_type", Json());
  const auto asked = *type, found = stated.is_string() ? stated.get<std::string>() : std::string();
  const auto family = family_named(asked);
  if (found.empty() || family.empty() || (family == family_named(found) && kind_named(asked) == kind_named(found))) return;
  throw UserError(ExitCode::usage, fmt::format("{} is {}, and {} says \"{}\"", type.flag(), asked, config.string(), found),
                  "leave it out, or name another model");
}

std::optional<double> memory_limit(const Options& options, at::Device device) {
  const ModelArguments args(options);
  if (!args.max_memory.has_value()) return std::nullopt;
  const auto limits = *args.max_memory;
  if (!limits.is_object())
    throw UserError(ExitCode::usage, fmt::format("{} is {}", args.max_memory.flag(), limits.dump()),
                    "expected an object such as {\"0\": \"20GB\"}");
  const auto place = device.is_cpu() ? std::string("cpu") : std::to_string(device.has_index() ? device.index() : 0);
  return limits.contains(place) ? std::optional(bytes_of(limits[place])) : std::nullopt;
}

void check_memory_limit(const Options& options, const std::filesystem::path& folder, at::Device device) {
  const auto limit = memory_limit(options, device);
  if (!limit) return;
  double needed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors") needed += static_cast<double>(entry.file_size());
  if (needed > *limit)
    throw UserError(ExitCode::out_of_memory,
                    fmt::format("the weights in {} need {}, and {} allows {} {}", folder.string(), format_bytes(needed),
                                ModelArguments(options).max_memory.flag(), device.str(), format_bytes(*limit)),
                    "raise it, quantize with --quant_bits 4, or shard the model over processes with --deepspeed zero3");
}

void require_generative_model(const std::filesystem::path& folder, const model::DecoderConfig& config) {
  if (config.num_labels == 0) return;
  throw UserError(ExitCode::usage,
                  fmt::format("{} is not a generative model: its head outputs {} per text", folder.string(),
                              counted(config.num_labels, "score")),
                  "name a language model, whose config.json lists an architecture that ends in ForCausalLM");
}

}  // namespace hone::cli
