#include "hone/tuner/merge.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "hone/base/file.h"
#include "hone/base/json.h"
#include "hone/base/model_file.h"
#include "hone/io/peft.h"
#include "hone/io/value_head.h"
#include "hone/io/weight_folder.h"
#include "hone/tuner/adapter_state_dict.h"
#include "hone/tuner/lora_init.h"
#include "hone/tuner/methods/attach.h"
#include "hone/tuner/model_folder.h"
#include "hone/tuner/single_experts.h"

namespace hone::tuner {
namespace {

constexpr std::string_view kHead = "lm_head.weight";
// Prefixes that InternVL's own class, the Omni models and Ovis put before a language model.
constexpr std::string_view kInnerModels[] = {"language_model.", "thinker.", "llm."};
constexpr const char* kScores = "score.weight";  // a classifier's head, which replaces the language model's
// For any family: a vision model's is "model.language_model.embed_tokens.weight".
constexpr std::string_view kEmbedding = "embed_tokens.weight";

// One adapter's contribution to one tensor: a replacement, a low-rank update, or both.
struct Change {
  Tensor replacement;
  std::optional<LoraLayer> layer;
  std::optional<LoraLayer> taken;                   // what a gradient-based initialization subtracted from the base
  std::shared_ptr<const io::AdapterConfig> config;  // of the layer
  std::shared_ptr<const model::LinearTuner> tuner;  // of a method other than LoRA
};

struct MergeEdits {
  std::map<std::string, std::vector<Change>> changes;  // by parameter name, in the order of the adapters
  bool untie = false;      // the embedding or the head is changed separately, so that a tied model must be written with both
  Tensor scores;           // the head of a classifier that was trained on a language model
  int64_t vocabulary = 0;  // rows of the embedding and the head if tokens were added; 0: the base's
};

// For an Omni model: tensors that are copied unchanged.
bool speaks(std::string_view parameter) {
  return parameter.starts_with("talker.") || parameter.starts_with("token2wav.") || parameter.starts_with("code2wav.");
}
std::string_view inner_model(std::string_view parameter) {
  for (auto inner : kInnerModels)
    if (parameter.starts_with(inner)) return inner;
  return "";
}
bool is_embedding(const std::string& parameter) {
  return (parameter.starts_with("model.") || !inner_model(parameter).empty()) && parameter.ends_with(kEmbedding);
}
bool is_head(std::string_view parameter) {
  parameter.remove_prefix(inner_model(parameter).size());
  return parameter == kHead;
}
bool of_vocabulary(const std::string& parameter) { return is_head(parameter) || is_embedding(parameter); }
std::string embedding_of(const io::WeightFolder& base) {
  for (const auto& [name, entry] : base.entries())
    if (is_embedding(name)) return name;
  return "";
}

std::string head_of(const io::WeightFolder& base) { return std::string(inner_model(embedding_of(base))).append(kHead); }

// New rows of untrained tokens are initialized to the mean of the others.
Tensor with_rows(const Tensor& weight, int64_t rows) {
  if (weight.size(0) >= rows) return weight;
  auto mean = weight.to(at::kFloat).mean(0, /*keepdim=*/true).to(weight.scalar_type());
  return at::cat({weight, mean.expand({rows - weight.size(0), -1})});
}

// In float32 once anything is added, so that the result is rounded only once, on writing.
Tensor apply(Tensor weight, const std::vector<Change>& changes, const std::string& path) {
  for (const auto& change : changes) {
    if (change.replacement.defined()) weight = change.replacement;
    if (change.tuner) weight = merged_by(*change.tuner, weight.to(at::kFloat));
    if (!change.layer) continue;
    const auto& pair = change.layer->weights;
    if (changes_base(change.config->init)) {
      auto generator = layer_generator(path, 0);
      weight = init_lora(weight, pair.a.size(0), pair.scale, *change.config, generator).residual;
    }
    if (change.taken)
      weight =
          subtract_from_base(weight, change.taken->weights.a.to(at::kFloat), change.taken->weights.b.to(at::kFloat), pair.scale)
              .residual;
    weight = merged_weight(weight.to(at::kFloat), *change.layer);
  }
  return weight;
}

// The layers of the base folder that a tuner can adapt.
std::vector<LayerShape> layers_in(const io::WeightFolder& base) {
  constexpr std::string_view kWeight = ".weight";
  std::vector<LayerShape> layers;
  for (const auto& [name, entry] : base.entries())
    if (name.ends_with(kWeight) && entry->shape.size() == 2 && !is_embedding(name))
      layers.push_back({name.substr(0, name.size() - kWeight.size()), "", entry->shape[1], entry->shape[0]});
  return layers;
}

void add_adapter(MergeEdits& edits, const io::WeightFolder& base, const fs::path& folder, bool tied) {
  io::Adapter adapter = io::read_adapter(folder);
  AdapterStateDict parts;
  MadeTuners made;
  if (adapter.config.is_lora()) {
    stack_single_experts(adapter, folder.string());
    parts = parse_adapter_state_dict(adapter, folder.string());
  } else {
    require_merges(adapter.config);
    made = read_tuners(layers_in(base), adapter, folder.string(), parts.modules_to_save);
  }
  const auto config = std::make_shared<const io::AdapterConfig>(adapter.config);
  const auto taken = initial_pairs(folder, adapter.config);
  const auto shape_of = [&](const std::string& parameter) -> at::IntArrayRef {
    const auto* entry = base.find(tied && is_head(parameter) ? embedding_of(base) : parameter);
    if (!entry)
      throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: the base model has no \"{}\"", folder.string(), parameter),
                      fmt::format("the adapter was made for {}",
                                  adapter.config.base_model.empty() ? "another model" : adapter.config.base_model));
    return entry->shape;
  };
  std::map<std::string, Change> changes;
  for (const auto& [parameter, value] : parts.modules_to_save) {
    if (parameter == kScores && !base.find(kScores)) {
      edits.scores = value;
      continue;
    }
    auto base_shape = shape_of(parameter);
    if (of_vocabulary(parameter) && value.dim() == 2 && value.size(1) == base_shape[1] && value.size(0) > base_shape[0])
      edits.vocabulary = std::max(edits.vocabulary, value.size(0));
    else if (value.sizes() != base_shape)
      throw UserError(ExitCode::bad_checkpoint,
                      fmt::format("{}: {} has another shape than the base's", folder.string(), parameter),
                      "the adapter belongs to another base model, or its vocabulary was resized");
    changes[parameter].replacement = value;
  }
  for (const auto& [path, layer] : parts.layers) {
    check_fits(path, layer, shape_of(layer.parameter(path)), folder.string());
    auto& change = changes[layer.parameter(path)];
    change.layer = layer;
    change.config = config;
    if (auto found = taken.find(path); found != taken.end()) change.taken = found->second;
  }
  for (size_t i = 0; i < made.layers.size(); ++i) changes[made.layers[i].path + ".weight"].tuner = made.tuners[i];
  for (auto& [parameter, change] : changes) {
    edits.untie |= tied && of_vocabulary(parameter);
    edits.changes[parameter].push_back(std::move(change));
  }
}

std::vector<io::TensorSource> sources(const io::WeightFolder& base, const MergeEdits& edits,
                                      std::optional<at::ScalarType> dtype) {
  std::vector<io::TensorSource> all;
  const auto add = [&](const std::string& name, const std::string& stored_as) {
    const io::TensorEntry& entry = *base.find(stored_as);
    const at::ScalarType wanted = at::isFloatingType(entry.dtype) && !speaks(name) ? dtype.value_or(entry.dtype) : entry.dtype;
    auto found = edits.changes.find(name);
    const std::vector<Change>* changes = found == edits.changes.end() ? nullptr : &found->second;
    const std::string path = name.substr(0, name.rfind('.'));
    auto shape = entry.shape;
    int64_t rows = of_vocabulary(name) ? std::max(edits.vocabulary, shape[0]) : shape[0];
    shape[0] = rows;
    all.push_back({name, wanted, shape, [&base, stored_as, changes, path, wanted, rows] {
                     const Tensor weight = with_rows(base.tensor(stored_as), rows);
                     return (changes ? apply(weight, *changes, path) : weight).to(wanted).contiguous();
                   }});
  };
  for (const auto& [name, entry] : base.entries())
    if (!edits.scores.defined() || !is_head(name)) add(name, name);
  if (edits.scores.defined()) all.push_back(io::TensorSource::of(kScores, edits.scores, dtype));
  if (edits.untie && !base.find(head_of(base))) add(head_of(base), embedding_of(base));
  return all;
}

void write_config(const fs::path& base, const fs::path& output, const MergeEdits& edits, std::optional<at::ScalarType> dtype,
                  const Json& changes) {
  Json config = read_model_file(base / "config.json");
  config.update(changes);
  config.erase("quantization_config");  // quantized weights are written in full precision
  Json *outer = &config, *text = &config;
  for (const char* part : {"thinker_config", "text_config", "llm_config"})
    if (text->contains(part) && (*text)[part].is_object()) outer = text, text = &(*text)[part];
  if (edits.vocabulary > 0) (*text)["vocab_size"] = edits.vocabulary;
  if (edits.untie) (*outer)["tie_word_embeddings"] = (*text)["tie_word_embeddings"] = false;
  if (dtype) {
    const std::string name = *dtype == at::kFloat ? "float32" : *dtype == at::kHalf ? "float16" : "bfloat16";
    config[config.contains("dtype") ? "dtype" : "torch_dtype"] = name;
  }
  write_file_atomically(output / "config.json", config.dump(2) + "\n");
}

bool is_tied(const fs::path& base, const io::WeightFolder& weights) {
  if (weights.find(head_of(weights)) || embedding_of(weights).empty()) return false;
  const auto config = read_model_file(base / "config.json");
  return config.value("thinker_config", config).value("tie_word_embeddings", true);
}

// The base's model card describes only the base.
std::string merged_model_card(const fs::path& base, const std::vector<fs::path>& adapters) {
  auto name = io::read_adapter_config(adapters.front()).base_model;
  if (name.empty()) name = base.string();
  std::vector<std::string> names;
  for (const auto& adapter : adapters) names.push_back("`" + adapter.string() + "`");
  return fmt::format(
      "---\nbase_model: {0}\nlibrary_name: transformers\npipeline_tag: {2}\ntags:\n- merged\n---\n\n"
      "# {0} with a merged adapter\n\nThe weights of {0} with {1} merged into them by hone.\n",
      name, fmt::join(names, ", "), pipeline_tag(base));
}

// Merging over the base would lose it; merging over an adapter would leave a folder with both.
void refuse_own_source(const fs::path& output, const fs::path& base, const std::vector<fs::path>& adapters) {
  auto same = [&](const fs::path& source) {
    std::error_code absent;
    return fs::equivalent(output, source, absent);
  };
  if (same(base) || std::any_of(adapters.begin(), adapters.end(), same))
    throw UserError(ExitCode::usage, fmt::format("{} is what the merge reads from", output.string()),
                    "name another folder with `output_dir`");
}

}  // namespace

MergeReport merge_adapters(const fs::path& base, const std::vector<fs::path>& adapters, const fs::path& output,
                           const MergeOptions& options) {
  if (fs::exists(output) && !fs::is_empty(output) && !options.exist_ok)
    throw UserError(ExitCode::usage, fmt::format("{} exists already", output.string()),
                    "choose another `output_dir`, or pass `exist_ok` true");
  refuse_own_source(output, base, adapters);
  const io::WeightFolder weights(base);
  const bool tied = is_tied(base, weights);
  MergeEdits edits;
  if (const auto* embedding = weights.find(embedding_of(weights));
      embedding && options.changes.vocabulary.rows > embedding->shape[0])
    edits.vocabulary = options.changes.vocabulary.rows;
  for (const auto& adapter : adapters) add_adapter(edits, weights, adapter, tied);

  Staging staging(output);
  auto tensors = sources(weights, edits, options.dtype);
  if (weights.expert_names()) tensors = io::unstack_experts(std::move(tensors), *weights.expert_names());
  tensors = weights.stored_names().stored(std::move(tensors));
  io::write_sharded(staging.folder(), tensors, options.max_shard_bytes);
  copy_small_files(base, staging.folder(), nullptr);
  if (!adapters.empty()) write_file_atomically(staging.folder() / "README.md", merged_model_card(base, adapters));
  for (const auto& adapter : adapters) copy_small_files(adapter, staging.folder(), &files_beside_adapter());
  if (const auto& source = adapters.empty() ? base : adapters.back(); io::holds_value_head(source))
    fs::copy_file(source / io::kValueHeadFile, staging.folder() / io::kValueHeadFile);
  write_config(base, staging.folder(), edits, options.dtype, options.changes.config);
  if (options.finish) options.finish(staging.folder());
  staging.publish();

  MergeReport report{tensors.size(), edits.changes.size(), 0};
  for (const auto& tensor : tensors) report.bytes += tensor.bytes();
  return report;
}

}  // namespace hone::tuner
