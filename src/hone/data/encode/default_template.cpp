// By the model's name, if its model_type agrees, then by its model_type, as in ms-swift's registry.
#include "hone/data/encode/default_template.h"

#include <algorithm>

#include "hone/base/strings/lower_case.h"

namespace hone::data {
namespace {

struct NameRule {
  const char* part;  // matched against the lower-case model name; the first matching rule applies
  const char* name;
  const char* families;  // prefixes of the allowed model_types, since a name alone is ambiguous
};

struct TypeRule {
  const char* model_type;
  const char* name;
};

// Longer, more specific names come first.
constexpr NameRule kByName[] = {
    {"openbuddy-llama3", "openbuddy2", "llama"},
    {"openbuddy-yi1.5", "openbuddy2", "llama"},
    {"openbuddy-nemotron", "openbuddy2", "llama"},
    {"openbuddy", "openbuddy", "llama mistral mixtral"},
    {"qwen3-embedding", "qwen3_emb", "qwen3"},
    {"qwen3-reranker", "qwen3_reranker", "qwen3"},
    {"qwen3guard", "qwen3_guard", "qwen3"},
    {"yufeng-xguard", "yufeng_xguard", "qwen3"},
    {"qwenlong-l1.5", "qwen3_thinking", "qwen3"},
    {"marco-mini", "qwen3_nothinking", "qwen3"},
    {"marco-nano", "qwen3_nothinking", "qwen3"},
    {"qwenlong-l1", "deepseek_r1", "qwen2"},
    {"marco-o1", "marco_o1", "qwen2"},
    {"kimi-dev", "qwen2_5", "qwen2"},
    {"smallthinker", "qwen", "qwen2"},
    {"instruct-1m", "qwen", "qwen2"},
    {"gte-qwen2", "dummy", "qwen2"},
    {"gte_qwen2", "dummy", "qwen2"},
    {"codefuse-codellama", "codefuse_codellama", "llama"},
    {"chinese-alpaca-2", "llama", "llama"},
    {"atom-7b", "atom", "llama"},
    {"mengzi3", "mengzi", "llama"},
    {"numinamath", "numina", "llama"},
    {"ziya2", "ziya", "llama"},
    {"megrez-3b", "megrez", "llama"},
    {"minimind2", "minimind", "llama"},
    {"skywork-o1", "skywork_o1", "llama"},
    {"longwriter-llama", "longwriter_llama", "llama"},
    {"reflection-llama", "reflection", "llama"},
    {"minicpm5-2b", "minicpm5_2b", "llama"},
    {"minicpm5", "minicpm5", "llama"},
    {"sus-chat", "sus", "llama"},
    {"codestral", "llama", "mistral"},
    {"devstral", "devstral", "mistral"},
    {"ministral-8b-instruct-2410", "mistral_nemo", "mistral"},
    {"mistral-large-instruct-2407", "mistral_nemo", "mistral"},
    {"mistral-small-instruct-2409", "mistral_nemo", "mistral"},
    {"wizardlm-2-8x22b", "wizardlm2_moe", "mixtral"},
    {"wizardlm-2-7b", "wizardlm2", "mistral"},
    {"seed-oss", "seed_oss", "seed_oss"},
    {"medgemma", "gemma3_text", "gemma3_text"},
    {"medgemma", "gemma3_vision", "gemma3"},
    {"phi-4-mini", "phi3", "phi3"},
    {"glm-z1-rumination", "glm4_z1_rumination", "glm"},
    {"glm-edge", "chatglm4", "glm"},
    {"deepseek-llm", "deepseek", "llama"},
    {"deepseek-math", "deepseek", "llama"},
    {"deepseek-coder", "deepseek", "llama"},
    {"qwen3.5", "qwen3_5", "qwen3_5"},
    {"qwen3.6", "qwen3_5", "qwen3_5"},
    {"qwen3-next-80b-a3b-instruct", "qwen3_nothinking", "qwen3_next"},
    {"qwen3-next-80b-a3b-thinking", "qwen3_thinking", "qwen3_next"},
    {"qwen3-coder", "qwen3_coder", "qwen3"},
    {"qwen3-vl", "qwen3_vl", "qwen3_vl"},
    {"internvl3_5", "internvl3_5", "internvl_chat"},
    {"internvl3", "internvl2_5", "internvl_chat"},
    {"internvl2_5", "internvl2_5", "internvl_chat"},
    {"internvl2", "internvl2", "internvl_chat"},
    {"qwen3-omni", "qwen3_omni", "qwen3_omni"},
    {"qwen2.5-math", "qwen2_5_math", "qwen2"},
    {"qwen2.5-vl", "qwen2_5_vl", "qwen2_5_vl"},
    {"qwen2.5-omni", "qwen2_5_omni", "qwen2_5_omni"},
    {"qwen2.5", "qwen2_5", "qwen2"},
    {"qwen2-vl", "qwen2_vl", "qwen2_vl"},
    {"qwen2-audio", "qwen2_audio", "qwen2_audio"},
    {"qwen2-", "qwen", "qwen2"},
    {"qwen1.5", "qwen", "qwen2"},
    {"codeqwen1.5", "qwen", "qwen2"},
    {"qwq-32b-preview", "qwq_preview", "qwen2"},
    {"qwq-32b", "qwq", "qwen2"},
    {"deepseek-r1", "deepseek_r1", "deepseek qwen llama"},
    {"deepseek-v3.1", "deepseek_v3_1", "deepseek"},
    {"deepseek-v3", "deepseek_v2_5", "deepseek"},
    {"deepseek-v2.5", "deepseek_v2_5", "deepseek"},
    {"deepseek-v2", "deepseek", "deepseek"},
    {"deepseek-coder", "deepseek_coder", "deepseek llama"},
    {"llama-4", "llama4", "llama4"},
    {"llama-3.3", "llama3_2", "llama"},
    {"llama-3.2", "llama3_2", "llama mllama"},
    {"llama-3.1", "llama3_2", "llama nemotron"},
    {"llama-3", "llama3", "llama"},
    {"llama-2", "llama", "llama"},
    {"mixtral", "llama", "mixtral"},
    {"mistral-nemo", "mistral_nemo", "mistral"},
    {"mistral-small-24b", "mistral_2501", "mistral"},
    {"mistral-7b", "llama", "mistral"},
    {"gemma-3", "gemma3_text", "gemma3_text"},
    {"gemma-3", "gemma3_vision", "gemma3"},
    {"ovis2.5", "ovis2_5", "ovis2_5"},
    {"gemma-2", "gemma", "gemma"},
    {"gemma-", "gemma", "gemma"},
    {"phi-4", "phi4", "phi"},
    {"phi-3", "phi3", "phi"},
    {"glm-4.7", "glm4_7", "glm"},
    {"glm-4.6", "glm4_5", "glm"},
    {"glm-4.5", "glm4_5", "glm"},
    {"glm-z1", "glm4", "glm"},
    {"glm-4-9b-0414", "glm4", "glm"},
    {"glm-4-32b-0414", "glm4", "glm"},
    {"glm-4-9b", "chatglm4", "chatglm glm"},
    {"chatglm3", "chatglm4", "chatglm"},
    {"chatglm2", "chatglm2", "chatglm"},
    {"internlm3", "internlm3", "internlm llama"},
    {"internlm2", "internlm2", "internlm llama"},
    {"internlm-", "internlm", "internlm llama"},
    {"yi-coder", "yi_coder", "llama yi"},
    {"yi-1.5", "chatml", "llama yi"},
    {"yi-", "chatml", "llama yi"},
    {"baichuan2", "baichuan", "baichuan"},
    {"minicpm-2b", "minicpm", "minicpm"},
    {"zephyr", "zephyr", "mistral"},
    {"hunyuan", "hunyuan", "hunyuan"},
};

constexpr TypeRule kByModelType[] = {{"qwen3", "qwen3"},
                                     {"qwen3_moe", "qwen3"},
                                     {"qwen3_next", "qwen3_nothinking"},
                                     {"qwen3_5", "qwen3_5"},
                                     {"qwen3_5_text", "qwen3_5"},
                                     {"qwen3_5_moe", "qwen3_5"},
                                     {"qwen3_5_moe_text", "qwen3_5"},
                                     {"gemma3_text", "gemma3_text"},
                                     {"gemma3", "gemma3_vision"},
                                     {"ovis2_5", "ovis2_5"},
                                     {"gemma", "gemma"},
                                     {"gemma2", "gemma"},
                                     {"phi3", "phi3"},
                                     {"glm4", "glm4"},
                                     {"glm4_moe", "glm4_5"},
                                     {"internlm3", "internlm3"},
                                     {"internlm2", "internlm2"},
                                     {"llama4", "llama4"},
                                     {"qwen2_vl", "qwen2_vl"},
                                     {"qwen2_5_vl", "qwen2_5_vl"},
                                     {"qwen3_vl", "qwen3_vl"},
                                     {"qwen3_vl_moe", "qwen3_vl"},
                                     {"internvl", "internvl_hf"},
                                     {"internvl_chat", "internvl2_5"},
                                     {"qwen2_5_omni", "qwen2_5_omni"},
                                     {"qwen3_omni_moe", "qwen3_omni"}};

bool is_of(std::string_view families, const std::string& model_type) {
  if (model_type.empty()) return true;  // there is no config.json yet
  for (size_t begin = 0, end; begin < families.size(); begin = end + 1) {
    end = std::min(families.find(' ', begin), families.size());
    if (model_type.starts_with(families.substr(begin, end - begin))) return true;
  }
  return false;
}

std::string qwen3_variant(const std::string& name) {
  if (name.find("thinking") != std::string::npos) return "qwen3_thinking";
  return name.find("instruct-2507") != std::string::npos ? "qwen3_nothinking" : "qwen3";
}

}  // namespace

std::string default_template(Dialect dialect, const ModelIdentity& model) {
  if (dialect != Dialect::swift) return "";  // LLaMA-Factory uses the tokenizer's own template
  const auto name = lower_case(model.name);
  for (const auto& rule : kByName)
    if (name.find(rule.part) != std::string::npos && is_of(rule.families, model.model_type)) return rule.name;
  const auto has_part = [&](const char* part) { return model.model_type.find(part) != std::string::npos; };
  const bool is_plain = !has_part("_vl") && !has_part("_omni") && !has_part("qwen3_5") && !has_part("qwen3_next");
  if (name.find("qwen3") != std::string::npos && is_of("qwen3", model.model_type) && is_plain) return qwen3_variant(name);
  for (const auto& rule : kByModelType)
    if (model.model_type == rule.model_type) return rule.name;
  return "";
}

}  // namespace hone::data
