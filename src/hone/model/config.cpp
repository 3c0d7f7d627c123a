#include "hone/model/config.h"

#include <algorithm>
#include <numeric>

#include "hone/base/file.h"
#include "hone/base/model_file.h"
#include "hone/model/families/family.h"

namespace hone::model {
namespace {

[[noreturn]] void fail(const std::string& message) { throw UserError(ExitCode::bad_checkpoint, message); }

const Json* field(const Json& hf, const char* name) {
  auto found = hf.find(name);
  return found == hf.end() || found->is_null() ? nullptr : &*found;
}

RopeKind rope_kind(const std::string& name) {
  if (name == "default" || name == "mrope") return RopeKind::plain;  // for the latter, the sections complete the definition
  if (name == "linear") return RopeKind::linear;
  if (name == "dynamic") return RopeKind::dynamic;
  if (name == "llama3") return RopeKind::llama3;
  if (name == "yarn") return RopeKind::yarn;
  fail(fmt::format("rope type is \"{}\"; supported: default, linear, dynamic, llama3, yarn", name));
}

std::optional<double> optional_number(const Json& hf, const char* name) {
  return field(hf, name) ? std::optional(number_or(hf, name, 0)) : std::nullopt;
}

// transformers 4 writes rope_theta and rope_scaling, 5 writes rope_parameters. For families with separate parameters for
// sliding-window layers, 5 writes both sets; this reads those of the other layers.
RopeConfig parse_rope(const Json& hf, int64_t context, double theta) {
  RopeConfig rope;
  rope.theta = number_or(hf, "rope_theta", theta);
  const Json* scaling = field(hf, "rope_parameters");
  if (scaling && scaling->is_object() && field(*scaling, "full_attention")) scaling = field(*scaling, "full_attention");
  if (!scaling) scaling = field(hf, "rope_scaling");
  if (!scaling) return rope;
  if (!scaling->is_object()) fail("rope parameters are not an object");
  rope.theta = number_or(*scaling, "rope_theta", rope.theta);
  rope.mrope_section = sizes_of(*scaling, "mrope_section");
  rope.mrope_interleaved = flag_or(*scaling, "mrope_interleaved", false);
  const Json* kind = field(*scaling, "rope_type");
  if (!kind) kind = field(*scaling, "type");
  if (!kind) return rope;
  if (!kind->is_string()) fail("rope_type is not a string");
  rope.kind = rope_kind(kind->get<std::string>());
  rope.factor = number_or(*scaling, "factor", 1.0);
  rope.original_context = size_or(*scaling, "original_max_position_embeddings", context);
  rope.low_frequency = number_or(*scaling, "low_freq_factor", 1.0);
  rope.high_frequency = number_or(*scaling, "high_freq_factor", 4.0);
  rope.beta_fast = number_or(*scaling, "beta_fast", 32.0);
  rope.beta_slow = number_or(*scaling, "beta_slow", 1.0);
  rope.attention_factor = optional_number(*scaling, "attention_factor");
  rope.mscale = optional_number(*scaling, "mscale");
  rope.mscale_all_dim = optional_number(*scaling, "mscale_all_dim");
  rope.truncate = flag_or(*scaling, "truncate", true);
  return rope;
}

std::optional<at::ScalarType> parse_dtype(const Json& hf) {
  const Json* name = field(hf, "dtype");
  if (!name) name = field(hf, "torch_dtype");
  if (!name || !name->is_string()) return std::nullopt;
  auto text = name->get<std::string>();
  if (text.starts_with("torch.")) text = text.substr(6);
  if (text == "float32") return at::kFloat;
  if (text == "bfloat16") return at::kBFloat16;
  if (text == "float16") return at::kHalf;
  return std::nullopt;
}

// "swish" is another name of SiLU in transformers.
void check_activation(const DecoderConfig& config, const Json& text) {
  const Json* act = field(text, "hidden_act");
  if (act && config.activation == Activation::silu && *act != "silu" && *act != "swish")
    fail(fmt::format("\"hidden_act\" is {}; expected \"silu\", the only activation hone computes for {}", act->dump(),
                     config.architecture));
}

// These divide or are under a root: with other values the model computes NaN.
void check_scales(const DecoderConfig& config) {
  if (!(config.norm_eps >= 0)) fail(fmt::format("rms_norm_eps is {}; expected 0 or more", config.norm_eps));
  if (!(config.rope.theta > 0)) fail(fmt::format("rope_theta is {}; expected a number above 0", config.rope.theta));
  if (!(config.rope.factor > 0))
    fail(fmt::format("the factor of the rope scaling is {}; expected a number above 0", config.rope.factor));
}

// Shapes come from a file: their products must be plausible before anything is allocated or divided by them.
void check(const DecoderConfig& config) {
  const auto& attention = config.attention;
  if (attention.kv_heads < 1 || attention.heads % attention.kv_heads != 0)
    fail(fmt::format("num_attention_heads {} is not a multiple of num_key_value_heads {}", attention.heads, attention.kv_heads));
  if (attention.head_dim < 2 || attention.head_dim % 2 != 0) fail(fmt::format("head_dim {} is not even", attention.head_dim));
  if (attention.rotated() < 2 || attention.rotated() % 2 != 0 || attention.rotated() > attention.head_dim)
    fail(fmt::format("partial_rotary_factor rotates {} of head_dim {} elements; expected an even number of 2 to {}",
                     attention.rotated(), attention.head_dim, attention.head_dim));
  if (const auto& sections = config.rope.mrope_section; !sections.empty()) {
    const bool counts = sections.size() == 3 &&
                        std::ranges::all_of(sections, [&](int64_t size) { return size >= 0 && size <= attention.head_dim; });
    if (!counts || std::accumulate(sections.begin(), sections.end(), int64_t{0}) != attention.rotated() / 2)
      fail(fmt::format("mrope_section is [{}]; expected three counts whose sum is {}, half of {}", fmt::join(sections, ", "),
                       attention.rotated() / 2, attention.rotary_dim ? "the rotary elements of a head" : "head_dim"));
  }
  constexpr int64_t kMost = int64_t{1} << 31;
  const auto& experts = config.experts;
  for (int64_t size : {config.vocab_size, config.hidden_size, config.intermediate_size, attention.heads * attention.head_dim,
                       experts.count, experts.width, experts.shared_expert_intermediate_size})
    if (size > kMost) fail(fmt::format("a size of {} is beyond any model", size));
  if (config.max_position_embeddings > kMost)
    fail(fmt::format("a context of {} tokens is beyond any model", config.max_position_embeddings));
  if (experts.num_experts_per_tok > experts.count)
    fail(fmt::format("num_experts_per_tok is {}, and there are {} experts", experts.num_experts_per_tok, experts.count));
}

}  // namespace

int64_t size_or(const Json& hf, const char* name, int64_t otherwise) {
  const Json* value = field(hf, name);
  if (!value) return otherwise;
  if (!value->is_number_integer() || value->get<int64_t>() < 0)
    fail(fmt::format("\"{}\" is {}; expected a count", name, value->dump()));
  return value->get<int64_t>();
}

int64_t required_size(const Json& hf, const char* name) {
  int64_t size = size_or(hf, name, 0);
  if (size <= 0 || size > int64_t{1} << 31)
    fail(fmt::format("\"{}\" is {}; expected a positive number", name, field(hf, name) ? std::to_string(size) : "missing"));
  return size;
}

double number_or(const Json& hf, const char* name, double otherwise) {
  const Json* value = field(hf, name);
  if (!value) return otherwise;
  if (!value->is_number()) fail(fmt::format("\"{}\" is {}; expected a number", name, value->dump()));
  return value->get<double>();
}

std::vector<int64_t> sizes_of(const Json& hf, const char* name) {
  const Json* value = field(hf, name);
  if (!value) return {};
  bool counts = value->is_array() && std::ranges::all_of(*value, [](const Json& each) { return each.is_number_integer(); });
  if (!counts) fail(fmt::format("\"{}\" is {}; expected a list of numbers", name, value->dump()));
  return value->get<std::vector<int64_t>>();
}

std::optional<std::vector<bool>> listed_sliding_layers(const Json& hf, int64_t layers) {
  const Json* types = field(hf, "layer_types");
  if (!types) return std::nullopt;
  if (!types->is_array() || static_cast<int64_t>(types->size()) != layers)
    fail(fmt::format("\"layer_types\" has {} entries; expected {}, one per layer", types->size(), layers));
  std::vector<bool> slides;
  for (const auto& type : *types) {
    if (type != "sliding_attention" && type != "full_attention")
      fail(fmt::format("\"layer_types\" has {}; expected \"sliding_attention\" or \"full_attention\"", type.dump()));
    slides.push_back(type == "sliding_attention");
  }
  return slides;
}

bool flag_or(const Json& hf, const char* name, bool otherwise) {
  const Json* value = field(hf, name);
  if (!value) return otherwise;
  if (!value->is_boolean()) fail(fmt::format("\"{}\" is {}; expected true or false", name, value->dump()));
  return value->get<bool>();
}

std::string ModuleNames::block(int64_t layer) const { return fmt::format("{}.{}.{}", model, layers, layer); }

bool DecoderConfig::is_carried(const std::string& tensor) const {
  return std::ranges::any_of(carried, [&](const std::string& prefix) { return tensor.starts_with(prefix); });
}

int64_t DecoderConfig::attention_layers() const {
  int64_t count = 0;
  for (int64_t layer = 0; layer < layers; ++layer) count += !is_linear(layer);
  return count;
}

int64_t DecoderConfig::widest_inner() const {
  const bool all_sparse = experts.count > 0 && std::ranges::all_of(experts.in_layer, [](bool sparse) { return sparse; });
  return std::max(all_sparse ? 0 : intermediate_size,
                  experts.num_experts_per_tok * experts.width + experts.shared_expert_intermediate_size);
}

std::vector<std::string> supported_architectures() {
  std::vector<std::string> names;
  for (const auto& family : families()) names.insert(names.end(), family.architectures.begin(), family.architectures.end());
  return names;
}

// "Qwen2ForSequenceClassification" has the blocks of Qwen2ForCausalLM with another head.
static constexpr std::string_view kClassifier = "ForSequenceClassification", kLanguageModel = "ForCausalLM";

static std::string with_language_head(std::string architecture) {
  if (architecture.ends_with(kClassifier))
    architecture.replace(architecture.size() - kClassifier.size(), kClassifier.size(), kLanguageModel);
  return architecture;
}

// Other architectures, such as vision models, keep their name, and their config.json has `num_labels`.
static bool is_classifier(const std::string& architecture, const Json& hf) {
  return architecture.ends_with(kClassifier) || (!architecture.ends_with(kLanguageModel) && field(hf, "num_labels"));
}

// transformers writes the number of labels as a list of names, and omits the default of two.
static int64_t label_count(const Json& hf) {
  if (const Json* names = field(hf, "id2label"); names && names->is_object() && !names->empty())
    return static_cast<int64_t>(names->size());
  return field(hf, "num_labels") ? required_size(hf, "num_labels") : 2;
}

Json classifier_changes(const Json& hf, int64_t labels, const std::string& problem) {
  const Json* listed = hf.is_object() ? field(hf, "architectures") : nullptr;
  auto architecture =
      listed && listed->is_array() && !listed->empty() && (*listed)[0].is_string() ? (*listed)[0].get<std::string>() : "";
  if (architecture.ends_with(kLanguageModel))
    architecture.replace(architecture.size() - kLanguageModel.size(), kLanguageModel.size(), kClassifier);
  Json names = Json::object(), numbers = Json::object();
  for (int64_t i = 0; i < labels; ++i)
    names[std::to_string(i)] = fmt::format("LABEL_{}", i), numbers[fmt::format("LABEL_{}", i)] = i;
  Json changes{{"architectures", {architecture}}, {"id2label", names}, {"label2id", numbers}, {"tie_word_embeddings", false}};
  if (!architecture.ends_with(kClassifier)) changes["num_labels"] = labels;
  if (!problem.empty()) changes["problem_type"] = problem;
  return changes;
}

static constexpr double kMostLayers = 100'000;

DecoderConfig parse_config(const Json& hf, const std::string& origin) try {
  if (!hf.is_object()) fail(fmt::format("expected an object, found {}", hf.type_name()));
  const Json* listed = hf.is_object() ? field(hf, "architectures") : nullptr;
  auto architecture =
      listed && listed->is_array() && !listed->empty() && (*listed)[0].is_string() ? (*listed)[0].get<std::string>() : "";
  for (const auto& family : families()) {
    if (std::ranges::find(family.architectures, with_language_head(architecture)) == family.architectures.end()) continue;
    // Families store values per layer, so the number of layers is checked first.
    const Json& text = text_config_of(hf);
    if (const Json* layers = field(text, "num_hidden_layers");
        layers && layers->is_number() && layers->get<double>() > kMostLayers)
      fail(fmt::format("num_hidden_layers is {}; at most {} are read", layers->dump(), kMostLayers));
    auto config = family.config(hf);
    config.architecture = architecture;
    const auto usual = config.rope;  // defaults of the family's files
    config.rope = parse_rope(text, config.max_position_embeddings, usual.theta);
    if (config.rope.mrope_section.empty()) config.rope.mrope_section = usual.mrope_section;
    config.rope.mrope_interleaved |= usual.mrope_interleaved;
    config.dtype = parse_dtype(hf);
    if (!config.dtype) config.dtype = parse_dtype(text);
    config.source = hf;
    if (is_classifier(architecture, hf)) config.num_labels = label_count(hf), config.tie_word_embeddings = false;
    check(config);
    check_activation(config, text);
    check_scales(config);
    return config;
  }
  fail(fmt::format("architecture \"{}\" is not supported; supported: {}", architecture,
                   fmt::join(supported_architectures(), ", ")));
} catch (const UserError& cause) {
  throw UserError(cause.code(), origin + ": " + cause.what(), cause.hint());
}

// Names the nested models, for users who gave the enclosing folder.
static std::string what_a_model_folder_is(const std::filesystem::path& folder) {
  std::vector<std::string> inside;
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator(folder, unreadable))
    if (inside.size() < 5 && std::filesystem::exists(entry.path() / "config.json")) inside.push_back(entry.path().string());
  std::sort(inside.begin(), inside.end());
  return inside.empty() ? "a model folder holds config.json and *.safetensors"
                        : fmt::format("the models in it: {}", fmt::join(inside, ", "));
}

DecoderConfig read_config(const std::filesystem::path& folder, const Json& changes) {
  auto path = folder / "config.json";
  if (!std::filesystem::exists(path) && std::filesystem::exists(folder / "adapter_config.json"))
    throw UserError(ExitCode::bad_checkpoint, folder.string() + " holds an adapter, not a model",
                    "name it in `adapters` instead");
  if (!std::filesystem::exists(path))
    throw UserError(ExitCode::bad_checkpoint, folder.string() + " holds no config.json", what_a_model_folder_is(folder));
  auto hf = read_model_file(path);
  hf.update(changes);
  return parse_config(hf, path.string());
}

}  // namespace hone::model
