#include "hone/engine/sequence.h"

#include "hone/engine/prompt_images.h"

namespace hone::engine {
namespace {

Request with_completed_sampling(Request request) {
  request.sampling = complete_sampling_params(std::move(request.sampling));
  return request;
}

}  // namespace

Sequence::Sequence(RequestId id, Request asked, int64_t rank, const text::Tokenizer& tokenizer)
    : id(id),
      queue_priority(rank),
      request(with_completed_sampling(std::move(asked))),
      prompt_size(static_cast<int64_t>(request.prompt.size())),
      tokens(request.prompt),
      sampler(request.sampling, request.prompt) {
  const auto& sampling = request.sampling;
  cache_key = request.images ? request.adapter + "\n" + request.images->digest : request.adapter;
  if (request.detokenize)
    text.emplace(tokenizer, sampling.stop, sampling.include_stop_str_in_output, sampling.skip_special_tokens);
}

void Sequence::advance(text::TokenId token, RequestOutput& output) {
  const auto& sampling = request.sampling;
  if (sampler.is_end(token)) {
    output.stop_token = token;
    if (!output.logprobs.empty()) {
      output.eos_logprob = output.logprobs.back().chosen.logprob;
      output.logprobs.pop_back();
    }
    return finish(FinishReason::stop, output);
  }
  tokens.push_back(token);
  sampler.accept(token);
  output.tokens.push_back(token);
  if (text) output.text += text->push(token, generated() >= sampling.min_tokens);
  if (text && text->stopped()) {
    output.stop_string = text->stop_string();
    finish(FinishReason::stop, output);
  } else if (sampler.is_stop(token)) {
    output.stop_token = token;
    finish(FinishReason::stop, output);
  } else if (generated() >= sampling.max_tokens) {
    finish(FinishReason::length, output);
  }
}

void Sequence::take_over(Sequence&& other) {
  tokens = std::move(other.tokens);
  sampler = std::move(other.sampler);
  if (other.text) text.emplace(std::move(*other.text));
}

void Sequence::finish(FinishReason reason, RequestOutput& output) {
  output.finish = reason;
  if (text) output.text += text->finish();
}

}  // namespace hone::engine
