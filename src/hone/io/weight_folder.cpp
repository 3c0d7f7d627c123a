#include "hone/io/weight_folder.h"

#include <sys/mman.h>
#include <unistd.h>

#include <charconv>
#include <set>

#include "hone/base/error.h"
#include "hone/base/file.h"
#include "hone/base/json.h"

namespace hone::io {
namespace {

std::set<std::string> shards_of(const fs::path& index_path) {
  auto index = parse_json(hone::read_file(index_path)).or_throw(ExitCode::bad_checkpoint, index_path.string());
  auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object())
    throw UserError(ExitCode::bad_checkpoint, index_path.string() + ": has no \"weight_map\"");
  std::set<std::string> shards;
  for (const auto& [name, shard] : map->items()) {
    auto file = shard.is_string() ? shard.get<std::string>() : "";
    // A file name must not escape the folder.
    if (file.empty() || fs::path(file).filename() != file)
      throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: \"{}\" is in {}; expected a file of this folder",
                                                            index_path.string(), name, shard.dump()));
    shards.insert(file);
  }
  return shards;
}

std::vector<std::vector<size_t>> split(const std::vector<TensorSource>& tensors, size_t limit) {
  std::vector<std::vector<size_t>> shards(1);
  size_t filled = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (filled > 0 && filled + tensors[i].bytes() > limit) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(i);
    filled += tensors[i].bytes();
  }
  return shards;
}

// Only names used by hone's own saves: "stem.safetensors", "stem-00001-of-00002.safetensors" and the index.
void remove_stale(const fs::path& folder, const std::string& stem, const std::set<std::string>& written) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    auto name = entry.path().filename().string();
    bool ours = name == stem + ".safetensors" || name == stem + ".safetensors.index.json" ||
                (name.starts_with(stem + "-") && name.find("-of-") != name.npos && name.ends_with(".safetensors"));
    if (ours && !written.contains(name)) fs::remove(entry.path());
  }
}

// Data copied out of a mapped file need not stay in memory; the system reads them again if needed.
void drop_pages(const Tensor& mapped) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE)),
             address = reinterpret_cast<uintptr_t>(mapped.const_data_ptr());
  const uintptr_t begin = (address + page - 1) / page * page, end = (address + mapped.nbytes()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

// An empty object if missing: the reader of the config reports what is wrong.
Json config_of(const fs::path& folder) {
  const auto path = folder / "config.json";
  if (!fs::exists(path)) return Json::object();
  auto config = parse_json(hone::read_file(path));
  return config && config->is_object() ? std::move(*config) : Json::object();
}

// The hidden size of a model whose experts may be stored transposed; 0 for other models.
int64_t transposed_width(const Json& config) {
  if (config.value("model_type", Json()) != "qwen3_vl_moe") return 0;
  const auto text = config.value("text_config", Json::object());
  const auto width = text.is_object() ? text.value("hidden_size", Json()) : Json();
  return width.is_number_integer() ? width.get<int64_t>() : 0;
}

}  // namespace

WeightFolder::WeightFolder(const fs::path& folder, const std::string& stem) {
  auto single = folder / (stem + ".safetensors"), index = folder / (stem + ".safetensors.index.json");
  if (fs::exists(index)) {
    for (const auto& shard : shards_of(index)) files_.emplace_back(folder / shard);
  } else if (fs::exists(single)) {
    files_.emplace_back(single);
  } else {
    bool pickled = fs::exists(folder / "pytorch_model.bin") || fs::exists(folder / "pytorch_model.bin.index.json");
    throw UserError(
        ExitCode::bad_checkpoint,
        fmt::format("{}: has neither {} nor {}", folder.string(), single.filename().string(), index.filename().string()),
        pickled ? "pytorch_model.bin is a pickle, which is never read here: convert the weights to safetensors"
                : "give a folder with safetensors weights");
  }
  for (size_t i = 0; i < files_.size(); ++i) {
    for (const auto& entry : files_[i].entries()) {
      if (!entries_.emplace(entry.name, &entry).second)
        throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: two shards hold \"{}\"", folder.string(), entry.name));
      file_of_[entry.name] = i;
    }
  }
  if (stem != "model") return;
  const auto config = config_of(folder);
  index_quantized(folder, config);
  index_experts(folder, config);
  show_module_names(folder, config);
}

void WeightFolder::show_module_names(const fs::path& folder, const Json& config) {
  names_ = StoredNames::of(config);
  if (names_.empty()) return;
  decltype(entries_) shown;
  for (const auto& [name, entry] : entries_) {
    const auto module = names_.module_name(name);
    if (!shown.emplace(module, entry).second)
      throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: holds \"{}\" under two names", folder.string(), module));
    if (module != name) renamed_[module] = name;
  }
  entries_ = std::move(shown);
}

void WeightFolder::index_experts(const fs::path& folder, const Json& config) {
  const auto hidden = transposed_width(config);
  auto found = hidden > 0 ? transposed_entries(entries_, hidden) : StackedFolder();
  if (found.entries.empty()) found = stacked_entries(entries_, folder.string());
  expert_names_ = found.names;
  for (auto& stacked : found.entries) {
    for (const auto& part : stacked.parts) entries_.erase(part);
    auto name = stacked.entry.name;
    if (find(name))
      throw UserError(ExitCode::bad_checkpoint,
                      fmt::format("{}: holds \"{}\" and the same of each expert", folder.string(), name));
    entries_[name] = &stacked_.emplace(name, std::move(stacked)).first->second.entry;
  }
}

void WeightFolder::index_quantized(const fs::path& folder, const Json& config) {
  auto quantization = config.value("quantization_config", Json());
  if (!quantization.is_object()) return;
  quant_method_ =
      quantization.value("quant_method", Json("")).is_string() ? quantization.value("quant_method", std::string()) : "";
  auto stored = [this](const std::string& name) { return files_[file_of_.at(name)].tensor(name); };
  for (auto& packed : quantized_entries(quantization, entries_, stored, folder.string())) {
    for (const auto& part : packed.parts) entries_.erase(part);
    auto name = packed.entry.name;
    entries_[name] = &quantized_.emplace(name, std::move(packed)).first->second.entry;
  }
}

const TensorEntry* WeightFolder::find(const std::string& name) const {
  auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : found->second;
}

Tensor WeightFolder::tensor(const std::string& shown) const {
  HONE_CHECK(find(shown), "no tensor {}", shown);
  auto other = renamed_.find(shown);
  const auto& name = other == renamed_.end() ? shown : other->second;
  auto stacked = stacked_.find(name);
  if (stacked == stacked_.end()) return stored(name);
  auto whole = stack_experts(stacked->second, [this](const std::string& part) { return stored(part); });
  const bool copied = stacked->second.entry.shape.size() == 3;  // rather than an alias of another tensor
  for (const auto& part : stacked->second.parts)
    if (copied && !quantized_.contains(part)) drop_pages(stored(part));
  return whole;
}

Tensor WeightFolder::stored(const std::string& name) const {
  if (auto packed = quantized_.find(name); packed != quantized_.end()) return packed->second.dequantize();
  return files_[file_of_.at(name)].tensor(name);
}

size_t WeightFolder::bytes() const {
  size_t sum = 0;
  for (const auto& [name, entry] : entries_) sum += entry->end - entry->begin;
  return sum;
}

size_t parse_size(std::string_view text) {
  double number = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  auto unit = text.substr(static_cast<size_t>(end - text.data()));
  static const std::map<std::string_view, double> kUnits{
      {"", 1},      {"KB", 1e3},   {"MB", 1e6},          {"GB", 1e9},
      {"TB", 1e12}, {"KiB", 1024}, {"MiB", 1024 * 1024}, {"GiB", 1024.0 * 1024 * 1024}};
  auto scale = kUnits.find(unit);
  double bytes = scale == kUnits.end() ? 0 : number * scale->second;
  if (status != std::errc() || !(bytes >= 1 && bytes < 1e18))
    throw UserError(ExitCode::usage,
                    fmt::format("size \"{}\" is not understood; expected a number and KB, MB, GB, KiB, MiB or GiB", text));
  return static_cast<size_t>(bytes);
}

void write_sharded(const fs::path& folder, const std::vector<TensorSource>& tensors, size_t max_shard_bytes,
                   const std::string& stem) {
  fs::create_directories(folder);
  auto shards = split(tensors, max_shard_bytes);
  std::set<std::string> written;
  Json weight_map = Json::object();
  size_t total = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    auto file =
        shards.size() == 1 ? stem + ".safetensors" : fmt::format("{}-{:05}-of-{:05}.safetensors", stem, i + 1, shards.size());
    std::vector<TensorSource> members;
    for (size_t index : shards[i]) {
      members.push_back(tensors[index]);
      weight_map[tensors[index].name] = file;
      total += tensors[index].bytes();
    }
    write_safetensors(folder / file, members);
    written.insert(file);
  }
  if (shards.size() > 1) {
    auto index = stem + ".safetensors.index.json";
    write_file_atomically(folder / index, Json{{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}}.dump(2) + "\n");
    written.insert(index);
  }
  remove_stale(folder, stem, written);
}

}  // namespace hone::io
