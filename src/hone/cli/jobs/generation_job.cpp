#include "hone/cli/jobs/generation_job.h"

#include "hone/cli/jobs/model_file.h"

namespace hone::cli {
namespace {

// The option when given, else the file's number, else the fallback.
double number(const Options& options, const std::string& name, const ModelFile& file, double fallback) {
  return options.has(name) ? options.real(name) : file.number(name, fallback);
}

int64_t room_for_answers(const Options& options, const fs::path& folder, const ModelFile& file) {
  if (options.has("max_new_tokens")) return options.integer("max_new_tokens");
  if (auto limit = file.integer("max_new_tokens", 0); limit > 0) return limit;
  return ModelFile(folder / "config.json").integer("max_position_embeddings", 2048);
}

// The file with sampling settings: one that was asked for, or the model's own, which need not be there.
fs::path sampling_file(const Options& options, const fs::path& model_folder) {
  if (!options.knows("generation_config") || !options.has("generation_config")) return model_folder / "generation_config.json";
  fs::path asked = options.text("generation_config");
  if (fs::is_directory(asked)) asked /= "generation_config.json";
  if (!fs::is_regular_file(asked)) throw UserError(ExitCode::usage, fmt::format("{} is {}; there is no such file", options.shown("generation_config"), asked.string()));
  return asked;
}

}  // namespace

engine::SamplingParams sampling_params(const Options& options, const fs::path& model_folder) {
  ModelFile file(sampling_file(options, model_folder));
  engine::SamplingParams sampling;
  sampling.temperature = number(options, "temperature", file, 1.0);
  sampling.top_p = number(options, "top_p", file, 1.0);
  sampling.top_k = std::max<int64_t>(0, options.has("top_k") ? options.integer("top_k") : static_cast<int64_t>(number(options, "top_k", file, 50)));
  sampling.min_p = options.knows("min_p") ? number(options, "min_p", file, 0.0) : 0.0;
  sampling.repetition_penalty = number(options, "repetition_penalty", file, 1.0);
  sampling.seed = static_cast<uint64_t>(options.integer("seed"));
  // ms-swift: a temperature on the command line samples, 0 is greedy; without one the model's own do_sample decides.
  bool asked = options.given("temperature") || options.given("top_p") || options.given("top_k");
  bool sample = options.has("do_sample") ? options.flag("do_sample") : asked || file.flag("do_sample", false);
  if (!sample) sampling.temperature = 0;
  if (options.integer("num_beams") > 1)
    throw UserError(ExitCode::usage, fmt::format("{} is {}", options.shown("num_beams"), options.integer("num_beams")), "beams are not in this version; use 1");
  sampling.max_tokens = room_for_answers(options, model_folder, file);
  if (options.knows("stop_words")) sampling.stop = options.list("stop_words");
  sampling.include_stop = true;  // as ms-swift shows them
  return sampling;
}

engine::EngineConfig engine_config(const Options& options) {
  engine::EngineConfig config;
  if (options.knows("quant_bits") && options.has("quant_bits")) config.quant_bits = std::stoi(options.text("quant_bits"));
  if (options.knows("max_batch_size") && options.integer("max_batch_size") > 0) config.max_sequences = options.integer("max_batch_size");
  return config;
}

std::vector<text::TokenId> end_tokens(const fs::path& model_folder) {
  for (const char* name : {"generation_config.json", "config.json"})
    if (auto tokens = ModelFile(model_folder / name).tokens("eos_token_id")) return *tokens;
  return {};
}

}  // namespace hone::cli
