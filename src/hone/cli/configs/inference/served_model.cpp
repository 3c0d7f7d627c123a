#include "hone/cli/configs/inference/served_model.h"

#include <ctime>

#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/inference/generation_config.h"
#include "hone/cli/configs/inference/serving_config.h"
#include "hone/cli/configs/media_config.h"
#include "hone/serve/openai/embed_model.h"

namespace hone::cli {
namespace {

// {"image": 4, "video": 1}, as in vLLM.
serve::MediaLimits media_limits(const EngineArguments& args) {
  serve::MediaLimits limits;
  if (!args.vllm_limit_mm_per_prompt.has_value()) return limits;
  const auto given = *args.vllm_limit_mm_per_prompt;
  for (const auto& [kind, most] : given.items()) {
    auto* limit = kind == "image"   ? &limits.images
                  : kind == "video" ? &limits.videos
                  : kind == "audio" ? &limits.audios
                                    : nullptr;
    if (!limit || !most.is_number_unsigned())
      throw UserError(ExitCode::usage, fmt::format("{}: {} is {}", args.vllm_limit_mm_per_prompt.flag(), kind, most.dump()),
                      "expected numbers of image, video and audio: {\"image\": 4}");
    *limit = most.get<size_t>();
  }
  return limits;
}

}  // namespace

data::EncodeConfig prompt_config(const Options& options) {
  auto config = encode_config(options, 0);
  if (!ModelArguments(options).guard_special_tokens.is_set())
    config.guard_special_tokens = true;   // special tokens in a client's text stay text
  config.pictures.sources.paths = false;  // and its paths do not refer to files of this machine
  config.pictures.sources.fetch = nullptr;
  return config;
}

serve::ServedModel served_model(const Options& options, const std::filesystem::path& folder,
                                std::shared_ptr<const text::Tokenizer> tokenizer, std::shared_ptr<const data::Encoder> encoder,
                                const engine::Engine& engine, model::CausalLM& model) {
  const ServerArguments args(options);
  const auto max_new_tokens = GenerationArguments(options).max_new_tokens;
  auto name = served_name(options, ModelArguments(options).model.required());
  serve::ServedModel served;
  served.name = name.name;
  served.any_name = name.any;
  served.owned_by = *args.owned_by;
  served.created = static_cast<int64_t>(std::time(nullptr));
  served.defaults = sampling_params(options, folder);
  served.defaults.include_stop_str_in_output = false;
  served.defaults.eos_token_ids = encoder->stop_ids();
  for (auto token : end_tokens(folder)) served.defaults.eos_token_ids.push_back(token);
  served.constraints = std::make_shared<engine::ConstraintCompiler>(*tokenizer, served.defaults.eos_token_ids);
  served.defaults.constraint = completion_regex(options, *tokenizer, served.defaults.eos_token_ids);
  served.max_model_len = engine.max_model_len();
  served.max_logprobs = *args.max_logprobs;
  served.media_limits = media_limits(EngineArguments(options));
  if ((max_new_tokens.is_set() || args.uses_factory_dialect()) && *max_new_tokens > 0)
    served.default_max_tokens = *max_new_tokens;
  served.refuse_long_completions = *args.long_max_tokens == "refuse";
  served.calls = &serve::call_syntax_of(*encoder);
  served.separate_reasoning = *EngineArguments(options).vllm_reasoning_parser != "none";
  served.look = page_look(options);
  if (const auto* pictures = encoder->pictures()) served.look.media = pictures->video_pad < 0 ? "image" : "image video";
  if (encoder->sounds()) served.look.media += served.look.media.empty() ? "audio" : " audio";
  served.fetch_media = request_media_fetcher();
  served.embed = serve::make_embed(model);
  served.embedding = serve::read_embedding_style(folder);
  served.embedding_width = model.config().hidden_size;
  served.tokenizer = std::move(tokenizer);
  served.encoder = std::move(encoder);
  return served;
}

}  // namespace hone::cli
