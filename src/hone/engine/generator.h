// Prompts in, tokens out: a batch decoded in step over a plain KV cache, each request with its own sampler and stop rules.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hone/engine/sampler.h"
#include "hone/model/causal_lm.h"

namespace hone::engine {

struct Request {
  std::vector<text::TokenId> prompt;
  SamplingConfig sampling;
  int64_t max_new_tokens = 512;
  std::vector<text::TokenId> stop_tokens;  // end of turn: not part of the text
  std::vector<std::string> stop_words;     // end the text and stay in it
};

enum class FinishReason { stop, length };

struct Completion {
  std::vector<text::TokenId> tokens;  // without the stop token
  std::string text;
  FinishReason reason = FinishReason::length;
};

// Called with each piece of text as it becomes final; returning false ends that request.
using OnText = std::function<bool(size_t request, std::string_view piece)>;

class Generator {
 public:
  Generator(model::CausalLM& model, std::shared_ptr<const text::Tokenizer> tokenizer);

  // Completions in the order of the requests, at most `batch_size` in flight. Throws UserError(bad_data) for an empty prompt.
  std::vector<Completion> run(const std::vector<Request>& requests, size_t batch_size, const OnText& on_text = {});

 private:
  std::vector<Completion> run_batch(std::span<const Request> requests, size_t first_index, const OnText& on_text);
  model::CausalLM& model_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
};

}  // namespace hone::engine
