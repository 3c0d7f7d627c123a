#include "hone/cli/configs/inference/engine_quantization.h"

#include <map>

#include "hone/base/file.h"
#include "hone/base/model_file.h"
#include "hone/cli/arguments/generation.h"
#include "hone/cli/configs/inference/engine_args.h"
#include "hone/cli/configs/model_config.h"

namespace hone::cli {
namespace {

// vLLM has several kernels for one format; the folder names the format.
std::string format_named(const std::string& method) {
  static const std::map<std::string, std::string> kFormats{
      {"awq_marlin", "awq"},    {"awq_triton", "awq"}, {"gptq_marlin", "gptq"}, {"gptq_marlin_24", "gptq"},
      {"gptq_bitblas", "gptq"}, {"gptq_v2", "gptq"},   {"bnb", "bitsandbytes"}, {"compressed_tensors", "compressed-tensors"},
      {"fbgemm_fp8", "fp8"}};
  auto found = kFormats.find(method);
  return found == kFormats.end() ? method : found->second;
}

std::string format_of(const std::filesystem::path& folder) {
  auto path = folder / "config.json";
  if (!std::filesystem::exists(path)) return "";
  auto settings = read_model_file(path).value("quantization_config", Json());
  auto method = settings.is_object() ? settings.value("quant_method", Json()) : Json();
  return method.is_string() ? format_named(method.get<std::string>()) : "";
}

const std::map<std::string, ops::KvCacheDtype>& float_codes() {
  static const std::map<std::string, ops::KvCacheDtype> codes{{"auto", ops::KvCacheDtype::plain},
                                                              {"fp8", ops::KvCacheDtype::fp8_e4m3},
                                                              {"fp8_e4m3", ops::KvCacheDtype::fp8_e4m3},
                                                              {"fp8_e5m2", ops::KvCacheDtype::fp8_e5m2}};
  return codes;
}

// The setting of --vllm_quantization or of vLLM's own argument.
std::string asked_quantization(const Options& options) {
  auto argument = engine_argument(options, "quantization");
  return argument.is_string() ? argument.get<std::string>() : EngineArguments(options).vllm_quantization.value_or("");
}

}  // namespace

bool rounds_to_float8(const Options& options, const std::filesystem::path& folder) {
  return (options.verb() & kGenerating) && format_named(asked_quantization(options)) == "fp8" && format_of(folder).empty();
}

std::optional<ops::WeightQuantization> engine_compression(const Options& options, const std::filesystem::path& folder) {
  const EngineArguments args(options);
  auto asked = asked_quantization(options);
  if (asked.empty() || !(options.verb() & kGenerating)) return std::nullopt;
  auto wanted = format_named(asked), found = format_of(folder);
  if (found == wanted) return std::nullopt;
  if (rounds_to_float8(options, folder)) {
    if (device_of(options).is_cuda()) return std::nullopt;
    throw UserError(ExitCode::usage, fmt::format("{} fp8 on {}", args.vllm_quantization.flag(), device_of(options).str()),
                    "weights of 8-bit floats need an NVIDIA GPU; on the CPU use --quant_bits 8");
  }
  if (found.empty() && wanted == "bitsandbytes")
    return ops::WeightQuantization{.code = ops::QuantType::nf4, .double_quant = true};
  throw UserError(ExitCode::usage,
                  fmt::format("{} is {}, and {} is {}", args.vllm_quantization.flag(), asked, folder.string(),
                              found.empty() ? "not quantized" : "quantized with " + found),
                  found.empty()
                      ? "leave it out, name bitsandbytes or fp8, or export a quantized folder with hone export --quant_method"
                      : "leave it out: the folder itself defines its format");
}

ops::KvCacheDtype cache_code(const Options& options) {
  const EngineArguments args(options);
  auto argument = engine_argument(options, "kv_cache_dtype");
  auto number = args.lmdeploy_quant_policy.exists() ? *args.lmdeploy_quant_policy : "0";
  if (auto bits = engine_argument(options, "quant_policy"); bits.is_number_integer()) number = bits.dump();
  auto name = argument.is_string()                  ? argument.get<std::string>()
              : args.sglang_kv_cache_dtype.exists() ? *args.sglang_kv_cache_dtype
                                                    : "auto";
  auto found = float_codes().find(name);
  if (found == float_codes().end())
    throw UserError(ExitCode::usage, fmt::format("{}: kv_cache_dtype is {}", args.vllm_engine_kwargs.flag(), name),
                    "expected auto, fp8, fp8_e4m3 or fp8_e5m2");
  if (number == "0") return found->second;
  if (found->second != ops::KvCacheDtype::plain)
    throw UserError(ExitCode::usage, fmt::format("the cache cannot keep {} and numbers of {} bits", name, number),
                    fmt::format("leave out {} or {}", args.sglang_kv_cache_dtype.flag(), args.lmdeploy_quant_policy.flag()));
  return number == "8" ? ops::KvCacheDtype::int8 : ops::KvCacheDtype::int4;
}

}  // namespace hone::cli
