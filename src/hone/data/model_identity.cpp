#include "hone/data/model_identity.h"

#include "hone/base/error.h"
#include "hone/base/model_file.h"
#include "hone/base/strings/replace_all.h"

namespace hone::data {
namespace {

// transformers 5 keeps all processors of a model in one file.
Json read_processor(const std::filesystem::path& folder, const char* file, const char* name) {
  if (const auto path = folder / file; std::filesystem::exists(path)) return read_model_file(path);
  const auto path = folder / "processor_config.json";
  if (!std::filesystem::exists(path)) return {};
  return read_model_file(path).value(name, Json());
}

void read_vision(const std::filesystem::path& folder, const Json& config, ModelIdentity& identity) {
  const bool by_name = identity.model_type == "internvl_chat" || identity.model_type == "ovis2_5";  // no id in config.json
  const auto vision = config.value(identity.model_type == "ovis2_5" ? "vit_config" : "vision_config", Json());
  auto token = config.value("image_token_id", Json());
  if (token.is_null()) token = config.value("image_token_index", Json());  // Qwen2.5-Omni and Gemma 3
  if (!vision.is_object() || !(token.is_number_integer() || by_name)) return;
  identity.vision = vision;
  if (token.is_number_integer()) identity.image_token = token.get<int64_t>();
  if (const auto tokens = config.value("mm_tokens_per_image", Json()); tokens.is_number_integer())
    identity.tokens_per_image = tokens.get<int64_t>();
  identity.image_processor = read_processor(folder, "preprocessor_config.json", "image_processor");
  identity.video_processor = read_processor(folder, "video_preprocessor_config.json", "video_processor");
}

// Omni models keep the thinker in a nested config.
void read_thinker(const std::filesystem::path& folder, const Json& config, ModelIdentity& identity) {
  const auto thinker = config.value("thinker_config", Json());
  if (!thinker.is_object()) return;
  read_vision(folder, thinker, identity);
  identity.audio = thinker.value("audio_config", Json());
  const auto rate = thinker.value("position_id_per_seconds", Json(25));
  if (!rate.is_number() || rate.get<double>() <= 0 || rate.get<double>() > 1000)
    throw UserError(ExitCode::bad_checkpoint,
                    fmt::format("thinker_config: \"position_id_per_seconds\" is {}; expected a number above 0", rate.dump()));
  identity.position_rate = rate.get<double>();
  const auto chunk = thinker.value("seconds_per_chunk", Json(2));
  if (chunk.is_number() && chunk.get<double>() > 0 && chunk.get<double>() <= 3600) identity.chunk_seconds = chunk.get<double>();
}

// The model's name, also for a folder in a hub cache: models--Qwen--Qwen3-4B/snapshots/<commit>, or Qwen2___5-0___5B as
// ModelScope writes dots.
std::string name_of_model(const std::filesystem::path& folder) {
  auto path = folder.lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  auto name = path.filename().string();
  if (path.parent_path().filename() == "snapshots") {
    name = path.parent_path().parent_path().filename().string();
    for (int part = 0; part < 2; ++part)  // skips "models" and the owner
      if (auto end = name.find("--"); end != name.npos) name.erase(0, end + 2);
  }
  return replace_all(std::move(name), "___", ".");
}

}  // namespace

ModelIdentity read_model_identity(const std::filesystem::path& folder) {
  ModelIdentity identity{.name = name_of_model(folder)};
  if (!std::filesystem::exists(folder / "config.json")) return identity;
  auto config = read_model_file(folder / "config.json");
  if (config.contains("model_type") && config["model_type"].is_string())
    identity.model_type = config["model_type"].get<std::string>();
  if (config.contains("architectures") && config["architectures"].is_array() && !config["architectures"].empty() &&
      config["architectures"][0].is_string())
    identity.architecture = config["architectures"][0].get<std::string>();
  read_vision(folder, config, identity);
  read_thinker(folder, config, identity);
  return identity;
}

}  // namespace hone::data
