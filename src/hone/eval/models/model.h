// The model under test: log-likelihoods of continuations, and generation. The engine's model, or one on a server.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hone/data/encode/encoder.h"
#include "hone/engine/engine.h"
#include "hone/eval/models/chat_client.h"
#include "hone/eval/scores/metrics.h"
#include "hone/eval/tasks/prompts.h"

namespace hone::eval {

struct LikelihoodRequest {
  Prompt prompt;  // empty: nothing precedes the continuation
  std::string continuation;
};
struct GenerationRequest {
  Prompt prompt;
  GenerationKwargs kwargs;
  uint64_t seed = 0;
};
using OnAnswered = std::function<void(size_t count)>;  // this many more requests are done

class Model {
 public:
  virtual ~Model() = default;
  virtual std::vector<Likelihood> likelihoods(const std::vector<LikelihoodRequest>& requests, const OnAnswered& answered) = 0;
  // The log-likelihood of the full text, in windows of the context, each token once.
  virtual std::vector<double> rolling_likelihoods(const std::vector<std::string>& texts, const OnAnswered& answered) = 0;
  virtual std::vector<std::string> generate(const std::vector<GenerationRequest>& requests, const OnAnswered& answered) = 0;
};

struct EngineModelConfig {
  bool apply_chat_template = false;
  bool fewshot_as_multiturn = true;  // in a chat
  std::vector<text::TokenId> eos_token_ids;
};
// `engine` must outlive it. `encoder` renders chats; it may be null if there are none.
std::unique_ptr<Model> make_engine_model(engine::Engine& engine, std::shared_ptr<const text::Tokenizer> tokenizer,
                                         std::shared_ptr<const data::Encoder> encoder, EngineModelConfig config);

// An OpenAI-compatible server. It generates but returns no log-likelihoods.
std::unique_ptr<Model> make_remote_model(ChatServer server, bool fewshot_as_multiturn);

}  // namespace hone::eval
