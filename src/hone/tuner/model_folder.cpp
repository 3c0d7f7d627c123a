#include "hone/tuner/model_folder.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "hone/base/fault_injection.h"
#include "hone/base/file.h"
#include "hone/base/model_file.h"
#include "hone/io/weight_folder.h"
#include "hone/model/decoder.h"

namespace hone::tuner {
namespace {

constexpr const char* kVoices = "spk_dict.pt";  // of Qwen2.5-Omni's talker: copied, never read

bool is_weight_file(const fs::path& path) {
  static const std::set<std::string> kExtensions = {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx"};
  if (path.filename() == kVoices) return false;
  return kExtensions.contains(path.extension().string()) || path.filename().string().ends_with(".index.json");
}

bool is_model_weights(const std::string& name) {
  return name.starts_with("model") && (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json"));
}

// Leftovers of killed processes: those whose process id no longer exists.
void remove_leftovers_of(const fs::path& whole) {
  std::error_code ignored;
  const auto prefix = whole.filename().string() + ".partial-";
  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(whole.parent_path(), ignored)) {
    auto name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const int process = std::atoi(name.c_str() + prefix.size());
    if (process > 0 && ::kill(process, 0) != 0 && errno == ESRCH) left.push_back(entry.path());
  }
  for (const auto& folder : left) fs::remove_all(folder, ignored);
}

fs::path folder_beside(const fs::path& output) {
  auto whole = fs::weakly_canonical(output);  // also for "out/" and "."
  remove_leftovers_of(whole);
  return whole.parent_path() / fmt::format("{}.partial-{}", whole.filename().string(), getpid());
}

}  // namespace

void copy_small_files(const fs::path& from, const fs::path& to, const std::set<std::string>* only) {
  for (const auto& entry : fs::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || is_weight_file(entry.path()) || name.starts_with(".") || (only && !only->contains(name)))
      continue;
    fs::copy_file(entry.path(), to / name, fs::copy_options::overwrite_existing);
  }
}

const std::set<std::string>& files_beside_adapter() {
  static const std::set<std::string> kNames = {
      "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
      "merges.txt",     "tokenizer.model",       "chat_template.jinja",     "template.jinja",    "args.json"};
  return kNames;
}

std::string pipeline_tag(const fs::path& model_folder) {
  const auto path = model_folder / "config.json";
  const auto config = fs::exists(path) ? read_model_file(path) : Json::object();
  if (config.contains("thinker_config")) return "any-to-any";  // an Omni model
  for (const char* tower : {"vision_config", "vit_config"})
    if (const auto found = config.find(tower); found != config.end() && found->is_object()) return "image-text-to-text";
  return "text-generation";
}

Staging::Staging(const fs::path& output) : output_(output), folder_(folder_beside(output)) {
  std::error_code status;
  fs::remove_all(folder_, status);
  fs::create_directories(folder_, status);
  if (status)
    throw UserError(ExitCode::usage, fmt::format("{}: cannot be created: {}", output.string(), status.message()),
                    "name another folder with `output_dir`");
}

Staging::~Staging() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void Staging::publish() {
  fault("merge.before_rename");
  if (fs::exists(output_) && !fs::is_empty(output_)) return move_into();
  fs::rename(folder_, output_);
  sync_directory(fs::absolute(output_).parent_path());
}

// The folder may contain other files: only an older model's weights and files of the same name are replaced.
void Staging::move_into() {
  for (const auto& entry : fs::directory_iterator(output_))
    if (is_model_weights(entry.path().filename().string())) fs::remove(entry.path());
  for (const auto& entry : fs::directory_iterator(folder_)) fs::rename(entry.path(), output_ / entry.path().filename());
  sync_directory(output_);
}

void append_carried(model::CausalLM& model, std::vector<io::TensorSource>& sources) {
  const auto files = model.decoder().files;
  if (!files) return;
  for (const auto& [name, entry] : files->entries())
    if (model.config().is_carried(name))
      sources.push_back({name, entry->dtype, entry->shape, [files, name = name] { return files->tensor(name); }});
}

}  // namespace hone::tuner
