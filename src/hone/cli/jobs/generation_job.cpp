#include "hone/cli/jobs/generation_job.h"

#include "hone/base/file.h"

namespace hone::cli {
namespace {

Json read_if_there(const fs::path& path) { return fs::is_regular_file(path) ? read_config_file(path.string()) : Json::object(); }

// The option when given, else the file's number, else the fallback.
double number(const Options& options, std::string_view name, const Json& file, double fallback) {
  if (options.has(name)) return options.real(name);
  auto found = file.find(std::string(name));
  return found != file.end() && found->is_number() ? found->get<double>() : fallback;
}

int64_t room_for_answers(const Options& options, const fs::path& folder, const Json& file) {
  if (options.has("max_new_tokens")) return options.integer("max_new_tokens");
  if (auto found = file.find("max_new_tokens"); found != file.end() && found->is_number_integer()) return found->get<int64_t>();
  return read_if_there(folder / "config.json").value("max_position_embeddings", int64_t{2048});
}

}  // namespace

engine::Request generation_request(const Options& options, const fs::path& model_folder) {
  auto file = read_if_there(model_folder / "generation_config.json");
  engine::Request request;
  auto& sampling = request.sampling;
  sampling.temperature = number(options, "temperature", file, 1.0);
  sampling.top_p = number(options, "top_p", file, 1.0);
  sampling.top_k = std::max<int64_t>(0, options.has("top_k") ? options.integer("top_k") : static_cast<int64_t>(number(options, "top_k", file, 50)));
  sampling.min_p = options.knows("min_p") ? number(options, "min_p", file, 0.0) : 0.0;
  sampling.repetition_penalty = number(options, "repetition_penalty", file, 1.0);
  sampling.seed = static_cast<uint64_t>(options.integer("seed"));
  // ms-swift: a temperature on the command line samples, 0 is greedy; without one the model's own do_sample decides.
  bool asked = options.given("temperature") || options.given("top_p") || options.given("top_k");
  sampling.sample = options.has("do_sample") ? options.flag("do_sample") : asked || file.value("do_sample", false);
  if (sampling.temperature == 0) sampling.sample = false;
  if (options.integer("num_beams") > 1)
    throw UserError(ExitCode::usage, fmt::format("{} is {}", options.shown("num_beams"), options.integer("num_beams")), "beams are not in this version; use 1");
  request.max_new_tokens = room_for_answers(options, model_folder, file);
  if (options.knows("stop_words")) request.stop_words = options.list("stop_words");
  return request;
}

std::vector<text::TokenId> end_tokens(const fs::path& model_folder) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    auto file = read_if_there(model_folder / name);
    auto found = file.find("eos_token_id");
    if (found == file.end() || found->is_null()) continue;
    if (found->is_number_integer()) return {found->get<text::TokenId>()};
    return found->get<std::vector<text::TokenId>>();
  }
  return {};
}

}  // namespace hone::cli
