// A tiny random model behind an engine, for tests of what the engine does.
#pragma once
#include <gtest/gtest.h>

#include <functional>

#include "engine/fixture.h"
#include "hone/base/rng.h"
#include "hone/engine/engine.h"
#include "hone/model/causal_lm.h"
#include "model/tiny_json.h"

namespace hone::engine {

using Tokens = std::vector<text::TokenId>;

class EngineTest : public testing::Test {
 protected:
  static std::unique_ptr<model::CausalLM> tiny_model() {
    const auto config =
        model::tiny_json("Qwen2ForCausalLM", {{"vocab_size", 260}, {"max_position_embeddings", 256}, {"initializer_range", 0.3}});
    return model::CausalLM::random(model::parse_config(config, "test"), 4);
  }

  Engine engine(const EngineConfig& config = {}) { return Engine(*model_, tokenizer_, config); }

  // Prompts of several lengths; every second one begins like the first.
  static std::vector<Request> requests(int64_t tokens = 20, size_t count = 6) {
    Rng rng(3);
    Tokens beginning;
    for (int i = 0; i < 19; ++i) beginning.push_back(static_cast<text::TokenId>(rng.below(256)));
    std::vector<Request> list;
    for (size_t i = 0; i < count; ++i) {
      Request request;
      if (i % 2 == 0) request.prompt = beginning;
      for (size_t j = 0; j < 1 + 7 * i; ++j) request.prompt.push_back(static_cast<text::TokenId>(rng.below(256)));
      request.sampling.max_tokens = tokens;
      list.push_back(std::move(request));
    }
    return list;
  }

  // The definition: the full sequence is computed again for every token. `complete` adds what belongs to other than text.
  Tokens expected(const Request& request, const std::function<void(model::ForwardInput&)>& complete = {}) {
    at::NoGradGuard no_grad;
    auto tokens = request.prompt;
    for (int64_t i = 0; i < request.sampling.max_tokens; ++i) {
      model::ForwardInput input;
      input.segments.append(static_cast<int64_t>(tokens.size()));
      input.tokens_t = at::tensor(std::vector<int64_t>(tokens.begin(), tokens.end()));
      input.positions_t = at::arange(static_cast<int64_t>(tokens.size()));
      if (complete) complete(input);
      tokens.push_back(
          static_cast<text::TokenId>(model_->logits(model_->hidden_states(input)).select(0, -1).argmax().item<int64_t>()));
    }
    return {tokens.begin() + static_cast<ptrdiff_t>(request.prompt.size()), tokens.end()};
  }

  std::vector<Tokens> answers(Engine& engine, std::vector<Request> list) {
    std::vector<Tokens> result;
    for (auto& completion : generate(engine, std::move(list))) result.push_back(completion.tokens);
    return result;
  }

  std::unique_ptr<model::CausalLM> model_ = tiny_model();
  std::shared_ptr<const text::Tokenizer> tokenizer_ = byte_tokenizer();
};

}  // namespace hone::engine
