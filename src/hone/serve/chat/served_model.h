// What is served: a model's names, its way to token ids, what its answers default to. Shared by all sessions and never changed.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hone/data/encode/encoder.h"
#include "hone/engine/constraints/compiler.h"
#include "hone/engine/sampling_params.h"
#include "hone/serve/chat/answer_parser.h"
#include "hone/serve/page/look.h"

namespace hone::serve {

// Which hidden states become a text's vector: one of them, the largest of each number, or sums over all.
enum class Pooling { last, first, largest, mean, weighted_mean, root_mean };
struct EmbeddingStyle {
  Pooling pooling = Pooling::last;
  bool unit = true;  // vectors have length 1
};
// A text on its way to its vector, part by part, so that answers of others go on in between. For the engine's thread.
class EmbeddingPass {
 public:
  virtual ~EmbeddingPass() = default;
  virtual bool step() = 0;  // false: it is done
  virtual std::vector<float> vector() const = 0;
};
using Embed = std::function<std::unique_ptr<EmbeddingPass>(std::vector<text::TokenId> ids, Pooling pooling, std::string adapter)>;

// A model that judges whole texts instead of writing: what it says, as a chat's content, and the numbers behind it.
enum class Judges { nothing, classes, likeness, relevance };
struct Judged {
  Json content, logprobs;
  std::vector<float> scores;
};
using JudgeTexts = std::function<std::vector<Judged>(const std::vector<std::vector<text::TokenId>>& texts, int64_t likeliest)>;

struct ServedModel {
  std::string name;          // in requests
  std::string owned_by;      // shown by /v1/models
  std::string base_adapter;  // what answers under the served name; "" is the bare model
  bool any_name = false;     // names nobody serves mean the served model
  int64_t created = 0;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const data::Encoder> encoder;
  std::shared_ptr<const engine::ConstraintCompiler> constraints;
  engine::SamplingParams defaults;  // what a request does not say; end_tokens included
  int64_t max_context = 0;
  int64_t max_logprobs = 20;
  int64_t default_max_tokens = 0;  // of a chat answer; 0: what the context leaves
  bool refuse_long_answers = false;  // a max_tokens beyond what the context leaves is an error, else it is cut and the answer says so
  const CallSyntax* calls = nullptr;  // how it writes them
  bool split_thoughts = true;
  Embed embed;
  EmbeddingStyle embedding;  // what a request does not say
  int64_t embedding_width = 0;
  Judges judges = Judges::nothing;
  JudgeTexts judge;  // runs on the engine's thread; empty when it judges nothing
  PageLook look;     // of the chat page
};

// How this model writes tool calls, from the name of the agent template or tool format, or from the words of its chat template.
const CallSyntax& call_syntax_of(const data::Encoder& encoder);

}  // namespace hone::serve
