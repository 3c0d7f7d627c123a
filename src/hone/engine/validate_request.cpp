#include "hone/engine/validate_request.h"

#include <algorithm>
#include <string_view>

#include "hone/base/error.h"

namespace hone::engine {
namespace {

void check_tokens(const std::vector<text::TokenId>& tokens, int64_t vocab_size, std::string_view what, const std::string& hint) {
  for (auto token : tokens)
    if (token < 0 || token >= vocab_size)
      throw UserError(ExitCode::bad_data,
                      fmt::format("{} contains token {}; the vocabulary has 0 to {}", what, token, vocab_size - 1), hint);
}

}  // namespace

void validate_and_clamp(Request& request, const EngineConfig& config, int64_t vocab_size) {
  auto& sampling = request.sampling;
  const auto size = static_cast<int64_t>(request.prompt.size());
  if (size == 0) throw UserError(ExitCode::bad_data, "the prompt has no tokens");
  if (size >= config.max_model_len)
    throw UserError(ExitCode::bad_data,
                    fmt::format("the prompt has {} tokens; the model's context holds {}", size, config.max_model_len),
                    "shorten it, or clear the history");
  if (sampling.num_beams > config.max_num_seqs)
    throw UserError(ExitCode::bad_data, fmt::format("num_beams is {}; expected at most max_num_seqs, which is {}",
                                                    sampling.num_beams, config.max_num_seqs));
  if (sampling.num_beams > 1 && config.enable_return_routed_experts)
    throw UserError(ExitCode::bad_data,
                    fmt::format("num_beams is {} in an engine that returns routed experts", sampling.num_beams),
                    "sample without beams");
  if (sampling.num_return_sequences > sampling.num_beams)
    throw UserError(ExitCode::bad_data,
                    fmt::format("{} beams cannot return {} completions", sampling.num_beams, sampling.num_return_sequences));
  check_tokens(sampling.logprob_token_ids, vocab_size, "logprob_token_ids", "");
  check_tokens(request.prompt, vocab_size, "the prompt", "make it with this model's tokenizer");
  if (size >= config.kv_cache_tokens)
    throw UserError(ExitCode::bad_data, fmt::format("the prompt has {} tokens; the cache holds {}", size, config.kv_cache_tokens),
                    "shorten it, or give the engine more memory");
  sampling.max_tokens =
      std::max<int64_t>(1, std::min({sampling.max_tokens, config.max_model_len - size, config.kv_cache_tokens - size}));
}

}  // namespace hone::engine
