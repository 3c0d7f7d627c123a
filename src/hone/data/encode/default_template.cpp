// Which named template a model was made with, by its name first and its model_type second, as ms-swift's registry of ids has it.
#include <algorithm>

#include "hone/base/file.h"
#include "hone/base/json.h"
#include "hone/data/encode/encoder.h"

namespace hone::data {
namespace {

struct NameRule {
  const char* part;  // of the lower-case model name; the first rule that fits decides
  const char* name;
};

// The longer, more special names stand first.
constexpr NameRule kByName[] = {
    {"qwen3.5", "qwen3_5"}, {"qwen3.6", "qwen3_5"}, {"qwen3-coder", "qwen3_coder"}, {"qwen3-vl", "qwen3_vl"}, {"qwen3-omni", "qwen3_omni"},
    {"qwen2.5-math", "qwen2_5_math"}, {"qwen2.5-vl", "qwen2_5_vl"}, {"qwen2.5-omni", "qwen2_5_omni"}, {"qwen2.5", "qwen2_5"},
    {"qwen2-vl", "qwen2_vl"}, {"qwen2-audio", "qwen2_audio"}, {"qwen2-", "qwen"}, {"qwen1.5", "qwen"}, {"codeqwen1.5", "qwen"},
    {"qwq-32b-preview", "qwq_preview"}, {"qwq-32b", "qwq"}, {"deepseek-r1", "deepseek_r1"}, {"deepseek-v3.1", "deepseek_v3_1"},
    {"deepseek-v3", "deepseek_v2_5"}, {"deepseek-v2.5", "deepseek_v2_5"}, {"deepseek-v2", "deepseek"}, {"deepseek-coder", "deepseek_coder"},
    {"llama-4", "llama4"}, {"llama-3.3", "llama3_2"}, {"llama-3.2", "llama3_2"}, {"llama-3.1", "llama3_2"}, {"llama-3", "llama3"},
    {"llama-2", "llama"}, {"mixtral", "llama"}, {"mistral-nemo", "mistral_nemo"}, {"mistral-small-24b", "mistral_2501"}, {"mistral-7b", "llama"},
    {"gemma-3", "gemma3_text"}, {"gemma-2", "gemma"}, {"gemma-", "gemma"}, {"phi-4", "phi4"}, {"phi-3", "phi3"},
    {"glm-4.7", "glm4_7"}, {"glm-4.6", "glm4_5"}, {"glm-4.5", "glm4_5"}, {"glm-z1", "glm4"}, {"glm-4-9b-0414", "glm4"}, {"glm-4-32b-0414", "glm4"},
    {"glm-4-9b", "chatglm4"}, {"chatglm3", "chatglm4"}, {"chatglm2", "chatglm2"}, {"internlm3", "internlm3"}, {"internlm2", "internlm2"},
    {"internlm-", "internlm"}, {"yi-coder", "yi_coder"}, {"yi-1.5", "chatml"}, {"yi-", "chatml"}, {"baichuan2", "baichuan"},
    {"minicpm-2b", "minicpm"}, {"zephyr", "zephyr"}, {"hunyuan", "hunyuan"},
};

constexpr NameRule kByModelType[] = {{"qwen3", "qwen3"},           {"qwen3_moe", "qwen3"},  {"qwen3_5", "qwen3_5"},   {"gemma3_text", "gemma3_text"},
                                     {"gemma", "gemma"},           {"gemma2", "gemma"},     {"phi3", "phi3"},         {"glm4", "glm4"},
                                     {"glm4_moe", "glm4_5"},       {"internlm3", "internlm3"}, {"internlm2", "internlm2"}, {"llama4", "llama4"}};

std::string qwen3_variant(const std::string& name) {
  if (name.find("thinking") != std::string::npos) return "qwen3_thinking";
  return name.find("instruct-2507") != std::string::npos ? "qwen3_nothinking" : "qwen3";
}

}  // namespace

ModelIdentity read_model_identity(const std::filesystem::path& folder) {
  auto normal = folder.lexically_normal();
  ModelIdentity identity{.name = (normal.has_filename() ? normal.filename() : normal.parent_path().filename()).string()};
  if (!std::filesystem::exists(folder / "config.json")) return identity;
  auto config = parse_json(read_file(folder / "config.json")).or_throw(ExitCode::bad_data, (folder / "config.json").string());
  if (config.is_object()) {
    if (config.contains("model_type") && config["model_type"].is_string()) identity.model_type = config["model_type"].get<std::string>();
    if (config.contains("architectures") && config["architectures"].is_array() && !config["architectures"].empty() &&
        config["architectures"][0].is_string())
      identity.architecture = config["architectures"][0].get<std::string>();
  }
  return identity;
}

std::string default_template(Dialect dialect, const ModelIdentity& model) {
  if (dialect != Dialect::swift) return "";  // LLaMA-Factory reads the tokenizer's own template
  auto name = model.name;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const auto& rule : kByName)
    if (name.find(rule.part) != std::string::npos) return rule.name;
  if (name.find("qwen3") != std::string::npos) return qwen3_variant(name);
  for (const auto& rule : kByModelType)
    if (model.model_type == rule.part) return rule.name;
  return "";
}

}  // namespace hone::data
