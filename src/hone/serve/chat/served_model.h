// The served model: names, tokenizer, template, defaults. Shared by all sessions and immutable.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hone/data/encode/encoder.h"
#include "hone/engine/constraints/compiler.h"
#include "hone/engine/sampling_params.h"
#include "hone/hub/fetch_url.h"
#include "hone/serve/chat/output_parser.h"
#include "hone/serve/page/page_config.h"

namespace hone::serve {

// How hidden states are pooled to a text's embedding: one of them, the maximum, or sums.
enum class Pooling { last, first, max, mean, weighted_mean, mean_sqrt_len };
struct PoolingConfig {
  Pooling pooling = Pooling::last;
  bool unit = true;  // vectors have length 1
};
// A text during embedding, chunk by chunk, so that other requests continue in between. For the engine's thread.
class ChunkedEmbedding {
 public:
  virtual ~ChunkedEmbedding() = default;
  virtual bool step() = 0;  // false: it is done
  virtual std::vector<float> vector() const = 0;
};
using Embed =
    std::function<std::unique_ptr<ChunkedEmbedding>(std::vector<text::TokenId> ids, Pooling pooling, std::string adapter)>;

// The output of a pooling model: chat content, and its numbers.
enum class PoolingTask { nothing, classification, embedding, reranking };
struct PoolingOutput {
  Json content, logprobs;
  std::vector<float> scores;
};
using PoolTexts = std::function<std::vector<PoolingOutput>(const std::vector<std::vector<text::TokenId>>& texts, int64_t top_n)>;

// Maximum number of media in one request; unset: only the general limits apply.
struct MediaLimits {
  std::optional<size_t> images, videos, audios;
};

struct ServedModel {
  std::string name;          // in requests
  std::string owned_by;      // shown by /v1/models
  std::string base_adapter;  // what generates under the served name; "" is the bare model
  bool any_name = false;     // unknown names mean the served model
  int64_t created = 0;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const data::Encoder> encoder;
  std::shared_ptr<const engine::ConstraintCompiler> constraints;
  engine::SamplingParams defaults;  // for fields that a request leaves out; end_tokens included
  int64_t max_model_len = 0;
  int64_t max_logprobs = 20;
  MediaLimits media_limits;
  int64_t default_max_tokens = 0;  // of a chat completion; 0: the rest of the context
  bool refuse_long_completions =
      false;  // a max_tokens beyond the rest of the context is an error, else it is reduced and the response has a note
  const ToolCallFormat* calls = nullptr;  // how it writes them
  bool separate_reasoning = true;
  Embed embed;
  PoolingConfig embedding;  // for fields that a request leaves out
  int64_t embedding_width = 0;
  PoolingTask pooling_task = PoolingTask::nothing;
  PoolTexts pool;               // runs on the engine's thread; empty for a generative model
  PageConfig look;              // of the chat page
  hub::FetchBytes fetch_media;  // of URLs in requests; null: they are rejected
};

// The model's tool-call format, by the name of the agent template or tool format, or by its chat template.
const ToolCallFormat& call_syntax_of(const data::Encoder& encoder);

}  // namespace hone::serve
