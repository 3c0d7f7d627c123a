// Sampling on the wire: the JSON of a request and the protobuf of its response.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/base/json.h"
#include "hone/engine/request.h"

namespace hone::tinker {

struct SampleRequest {
  std::string sampler_id, base_model, model_path;  // one of them selects the model
  int64_t seq_id = 0;
  int64_t num_samples = 1;
  std::vector<text::TokenId> prompt;
  engine::SamplingParams sampling;  // end tokens are the server's to add
  std::optional<uint64_t> seed;
  bool wants_prompt_logprobs = false;
  int64_t topk_prompt_logprobs = 0, topk_sample_logprobs = 0;
};

struct SampleLimits {
  int64_t num_samples = 1024, top_logprobs = 64, stops = 64;
};

// Throws RequestError naming the field.
SampleRequest read_sample_request(const Json& body, const SampleLimits& limits = {});

struct SampledSequence {
  std::vector<text::TokenId> tokens;  // with the token that ended it
  std::vector<float> logprobs;        // one per token
  std::vector<std::vector<engine::TokenLogprob>> top;
  bool at_length = false;  // max_tokens ended it
};

struct SampleResult {
  std::vector<SampledSequence> sequences;
  std::vector<engine::PositionLogprobs> prompt_logprobs;  // of the last tokens of the prompt
  int64_t cached_tokens = 0;
};
std::string write_sample_response(const SampleRequest& request, const SampleResult& result);

}  // namespace hone::tinker
