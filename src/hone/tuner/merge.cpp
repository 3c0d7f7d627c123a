#include "hone/tuner/merge.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "hone/base/fault.h"
#include "hone/base/file.h"
#include "hone/base/json.h"
#include "hone/io/hf_index.h"
#include "hone/io/peft.h"
#include "hone/tuner/adapter_parts.h"
#include "hone/tuner/initial.h"

namespace hone::tuner {
namespace {

constexpr const char* kHead = "lm_head.weight";
constexpr const char* kEmbedding = "model.embed_tokens.weight";

// One adapter's share in one tensor: a replacement, a low-rank change, or both.
struct Change {
  Tensor replacement;
  std::optional<LayerAdapter> layer;
  std::optional<LayerAdapter> taken;                // what a start by gradients took out of the base
  std::shared_ptr<const io::AdapterConfig> config;  // of the layer
};

struct Plan {
  std::map<std::string, std::vector<Change>> changes;  // by parameter name, in the order of the adapters
  bool untie = false;  // the embedding or the head is changed alone, so that a tied model has to be written with both
  int64_t vocabulary = 0;  // rows of the embedding and the head, where tokens were added; 0: the base's
};

bool of_vocabulary(const std::string& parameter) { return parameter == kHead || parameter == kEmbedding; }

// Rows of tokens that nobody trained start where the others are on average.
Tensor with_rows(const Tensor& weight, int64_t rows) {
  if (weight.size(0) >= rows) return weight;
  auto mean = weight.to(at::kFloat).mean(0, /*keepdim=*/true).to(weight.scalar_type());
  return at::cat({weight, mean.expand({rows - weight.size(0), -1})});
}

// In float32 once anything is added, so that the result is rounded a single time, when it is written.
Tensor apply(Tensor weight, const std::vector<Change>& changes, const std::string& path) {
  for (const auto& change : changes) {
    if (change.replacement.defined()) weight = change.replacement;
    if (!change.layer) continue;
    const auto& pair = change.layer->weights;
    if (changes_base(change.config->init)) {
      auto generator = layer_generator(path, 0);
      weight = initial_lora(weight, pair.a.size(0), pair.scale, *change.config, generator).residual;
    }
    if (change.taken)
      weight = taken_out(weight, change.taken->weights.a.to(at::kFloat), change.taken->weights.b.to(at::kFloat), pair.scale).residual;
    weight = merged_weight(weight.to(at::kFloat), *change.layer);
  }
  return weight;
}

void add_adapter(Plan& plan, const io::WeightFolder& base, const fs::path& folder, bool tied) {
  const io::Adapter adapter = io::read_adapter(folder);
  auto parts = split_adapter(adapter, folder.string());
  const auto config = std::make_shared<const io::AdapterConfig>(adapter.config);
  const auto taken = initial_pairs(folder, adapter.config);
  const auto shape_of = [&](const std::string& parameter) -> at::IntArrayRef {
    const auto* entry = base.find(tied && parameter == kHead ? kEmbedding : parameter);
    if (!entry)
      throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: the base model has no \"{}\"", folder.string(), parameter),
                      fmt::format("the adapter was made for {}",
                                  adapter.config.base_model.empty() ? "another model" : adapter.config.base_model));
    return entry->shape;
  };
  std::map<std::string, Change> changes;
  for (const auto& [parameter, value] : parts.whole) {
    auto base_shape = shape_of(parameter);
    if (of_vocabulary(parameter) && value.dim() == 2 && value.size(1) == base_shape[1] && value.size(0) > base_shape[0])
      plan.vocabulary = std::max(plan.vocabulary, value.size(0));
    else if (value.sizes() != base_shape)
      throw UserError(ExitCode::bad_checkpoint,
                      fmt::format("{}: {} has another shape than the base's", folder.string(), parameter),
                      "the adapter belongs to another base model, or its vocabulary was resized");
    changes[parameter].replacement = value;
  }
  for (const auto& [path, layer] : parts.layers) {
    check_fits(path, layer, shape_of(path + ".weight"), folder.string());
    auto& change = changes[path + ".weight"];
    change.layer = layer;
    change.config = config;
    if (auto found = taken.find(path); found != taken.end()) change.taken = found->second;
  }
  for (auto& [parameter, change] : changes) {
    plan.untie |= tied && (parameter == kHead || parameter == kEmbedding);
    plan.changes[parameter].push_back(std::move(change));
  }
}

std::vector<io::TensorSource> sources(const io::WeightFolder& base, const Plan& plan, std::optional<at::ScalarType> dtype) {
  std::vector<io::TensorSource> all;
  const auto add = [&](const std::string& name, const std::string& stored_as) {
    const io::TensorEntry& entry = *base.find(stored_as);
    const at::ScalarType wanted = at::isFloatingType(entry.dtype) ? dtype.value_or(entry.dtype) : entry.dtype;
    auto found = plan.changes.find(name);
    const std::vector<Change>* changes = found == plan.changes.end() ? nullptr : &found->second;
    const std::string path = name.substr(0, name.rfind('.'));
    auto shape = entry.shape;
    int64_t rows = of_vocabulary(name) ? std::max(plan.vocabulary, shape[0]) : shape[0];
    shape[0] = rows;
    all.push_back({name, wanted, shape, [&base, stored_as, changes, path, wanted, rows] {
                     const Tensor weight = with_rows(base.tensor(stored_as), rows);
                     return (changes ? apply(weight, *changes, path) : weight).to(wanted).contiguous();
                   }});
  };
  for (const auto& [name, entry] : base.entries()) add(name, name);
  if (plan.untie && !base.find(kHead)) add(kHead, kEmbedding);
  return all;
}

bool is_weight_file(const fs::path& path) {
  static const std::set<std::string> kExtensions = {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx"};
  return kExtensions.contains(path.extension().string()) || path.filename().string().ends_with(".index.json");
}

void copy_small_files(const fs::path& from, const fs::path& to, const std::set<std::string>* only) {
  for (const auto& entry : fs::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || is_weight_file(entry.path()) || name.starts_with(".") || (only && !only->contains(name)))
      continue;
    fs::copy_file(entry.path(), to / name, fs::copy_options::overwrite_existing);
  }
}

void write_config(const fs::path& base, const fs::path& output, const Plan& plan, std::optional<at::ScalarType> dtype, const Json& changes) {
  Json config = read_config_file((base / "config.json").string());
  config.update(changes);
  if (plan.vocabulary > 0) config["vocab_size"] = plan.vocabulary;
  if (plan.untie) config["tie_word_embeddings"] = false;
  if (dtype) {
    const std::string name = *dtype == at::kFloat ? "float32" : *dtype == at::kHalf ? "float16" : "bfloat16";
    config[config.contains("dtype") ? "dtype" : "torch_dtype"] = name;
  }
  write_file_atomically(output / "config.json", config.dump(2) + "\n");
}

bool is_tied(const fs::path& base, const io::WeightFolder& weights) {
  return !weights.find(kHead) && weights.find(kEmbedding) &&
         read_config_file((base / "config.json").string()).value("tie_word_embeddings", true);
}

bool is_model_weights(const std::string& name) {
  return name.starts_with("model") && (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json"));
}

// A folder beside the output that is gone again unless the merge came to its end.
class Staging {
 public:
  explicit Staging(const fs::path& output) : output_(output), folder_(beside(output)) {
    std::error_code status;
    fs::remove_all(folder_, status);
    fs::create_directories(folder_, status);
    if (status)
      throw UserError(ExitCode::usage, fmt::format("{}: cannot be created: {}", output.string(), status.message()),
                      "name another folder with --output_dir");
  }
  ~Staging() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  Staging(const Staging&) = delete;
  const fs::path& folder() const { return folder_; }
  void publish() {
    fault("merge.before_rename");
    if (fs::exists(output_) && !fs::is_empty(output_)) return move_into();
    fs::rename(folder_, output_);
    sync_directory(fs::absolute(output_).parent_path());
  }

 private:
  static fs::path beside(const fs::path& output) {
    auto whole = fs::weakly_canonical(output);  // of "out/" and "." too
    return whole.parent_path() / fmt::format("{}.partial-{}", whole.filename().string(), getpid());
  }

  // The folder may hold what is not ours: only an older model's weights make way, and files of the same name.
  void move_into() {
    for (const auto& entry : fs::directory_iterator(output_))
      if (is_model_weights(entry.path().filename().string())) fs::remove(entry.path());
    for (const auto& entry : fs::directory_iterator(folder_)) fs::rename(entry.path(), output_ / entry.path().filename());
    sync_directory(output_);
  }

  fs::path output_, folder_;
};

// Merging over the base would lose it; merging over an adapter would leave a folder that is both.
void refuse_own_source(const fs::path& output, const fs::path& base, const std::vector<fs::path>& adapters) {
  auto same = [&](const fs::path& source) {
    std::error_code absent;
    return fs::equivalent(output, source, absent);
  };
  if (same(base) || std::any_of(adapters.begin(), adapters.end(), same))
    throw UserError(ExitCode::usage, fmt::format("{} is what the merge reads from", output.string()), "name another folder with --output_dir");
}

}  // namespace

MergeReport merge_adapters(const fs::path& base, const std::vector<fs::path>& adapters, const fs::path& output,
                           const MergeOptions& options) {
  if (fs::exists(output) && !fs::is_empty(output) && !options.exist_ok)
    throw UserError(ExitCode::usage, fmt::format("{} exists already", output.string()),
                    "choose another --output_dir, or pass --exist_ok true");
  refuse_own_source(output, base, adapters);
  const io::WeightFolder weights(base);
  const bool tied = is_tied(base, weights);
  Plan plan;
  if (const auto* embedding = weights.find(kEmbedding); embedding && options.changes.vocabulary.rows > embedding->shape[0])
    plan.vocabulary = options.changes.vocabulary.rows;
  for (const auto& adapter : adapters) add_adapter(plan, weights, adapter, tied);

  Staging staging(output);
  const auto tensors = sources(weights, plan, options.dtype);
  io::write_sharded(staging.folder(), tensors, options.max_shard_bytes);
  copy_small_files(base, staging.folder(), nullptr);
  // A run may have added tokens or a template; its own files win over the base's. args.json tells infer how the model was
  // trained.
  static const std::set<std::string> kFromAdapter = {
      "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
      "merges.txt",     "tokenizer.model",       "chat_template.jinja",     "args.json"};
  for (const auto& adapter : adapters) copy_small_files(adapter, staging.folder(), &kFromAdapter);
  write_config(base, staging.folder(), plan, options.dtype, options.changes.config);
  if (options.finish) options.finish(staging.folder());
  staging.publish();

  MergeReport report{tensors.size(), plan.changes.size(), 0};
  for (const auto& tensor : tensors) report.bytes += tensor.bytes();
  return report;
}

}  // namespace hone::tuner
