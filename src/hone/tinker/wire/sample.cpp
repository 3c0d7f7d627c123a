#include "hone/tinker/wire/sample.h"

#include <cmath>
#include <limits>

#include "hone/base/protobuf.h"
#include "hone/tinker/wire/arrays.h"
#include "hone/tinker/wire/json_fields.h"

namespace hone::tinker {
namespace {

// Whether it may be a token's id; of another range it would become a different one.
bool is_token(const Json& json) {
  if (!json.is_number_integer()) return false;
  const auto id = json.get<int64_t>();  // negative for unsigned numbers from 2^63 on
  return id >= 0 && id <= std::numeric_limits<int32_t>::max();
}

std::vector<text::TokenId> prompt_tokens(const Json& prompt) {
  std::vector<text::TokenId> tokens;
  if (!prompt.is_object() || !prompt.contains("chunks") || !prompt["chunks"].is_array())
    throw RequestError("prompt: expected an object with chunks");
  for (const auto& chunk : prompt["chunks"]) {
    const auto type = text_field(chunk, "type", "encoded_text");
    if (type != "encoded_text")
      throw RequestError(fmt::format("prompt: a chunk of type \"{}\"; this server takes encoded_text", type));
    if (!chunk.contains("tokens") || !chunk["tokens"].is_array()) throw RequestError("prompt: a chunk without tokens");
    for (const auto& token : chunk["tokens"]) {
      if (!is_token(token)) throw RequestError("prompt: tokens are whole numbers from 0 on");
      tokens.push_back(static_cast<text::TokenId>(token.get<int64_t>()));
    }
  }
  return tokens;
}

// A string, a list of strings, or a list of token ids.
void read_stop(const Json& stop, engine::SamplingParams& sampling, int64_t most) {
  if (stop.is_null()) return;
  const auto list = stop.is_array() ? stop : Json::array({stop});
  if (static_cast<int64_t>(list.size()) > most)
    throw RequestError(fmt::format("stop: {} entries; at most {} are taken", list.size(), most));
  for (const auto& each : list) {
    if (each.is_string() && !each.get_ref<const std::string&>().empty())
      sampling.stop.push_back(each.get<std::string>());
    else if (is_token(each))
      sampling.stop_tokens.push_back(static_cast<text::TokenId>(each.get<int64_t>()));
    else
      throw RequestError("stop: expected strings that are not empty, or token ids");
  }
}

void read_sampling(const Json& params, SampleRequest& request, const SampleLimits& limits) {
  auto& sampling = request.sampling;
  sampling.max_tokens = integer_field(params, "max_tokens", std::numeric_limits<int32_t>::max(), 1);
  sampling.temperature = real_field(params, "temperature", 1.0, 0, 1e6);
  sampling.top_k = std::max<int64_t>(0, integer_field(params, "top_k", -1, -1));
  sampling.top_p = real_field(params, "top_p", 1.0, 0, 1);
  if (has_field(params, "seed")) request.seed = static_cast<uint64_t>(integer_field(params, "seed", 0));
  if (params.contains("stop")) read_stop(params["stop"], sampling, limits.stops);
}

void refuse_unsupported(const Json& body) {
  for (const char* name : {"target_prompt_logprobs", "prompt_alt_tokens_k", "record_stability_info"}) {
    if (!has_field(body, name)) continue;
    const auto& value = body[name];
    const bool asks = value.is_boolean() ? value.get<bool>() : value.is_number() ? value.get<double>() != 0 : true;
    if (asks) throw RequestError(fmt::format("{} is not supported by this server", name));
  }
}

void read_logprobs(const Json& body, SampleRequest& request, const SampleLimits& limits) {
  request.wants_prompt_logprobs = flag_field(body, "prompt_logprobs", false);
  request.topk_prompt_logprobs = integer_field(body, "topk_prompt_logprobs", 0, 0, limits.top_logprobs);
  request.topk_sample_logprobs = integer_field(body, "topk_sample_logprobs", 0, 0, limits.top_logprobs);
  auto& sampling = request.sampling;
  sampling.logprobs = request.topk_sample_logprobs;
  if (!request.wants_prompt_logprobs && request.topk_prompt_logprobs == 0) return;
  sampling.prompt_logprobs = request.topk_prompt_logprobs;
  const auto size = static_cast<int64_t>(request.prompt.size());
  if (has_field(body, "prompt_logprobs_last_n"))
    sampling.prompt_logprobs_start = size - integer_field(body, "prompt_logprobs_last_n", 1, 1, std::max<int64_t>(1, size - 1));
}

// [rows, k] with empty cells for missing candidates.
std::string write_top(const std::vector<const std::vector<engine::TokenLogprob>*>& rows, int64_t k) {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  for (const auto* row : rows)
    for (size_t i = 0; i < static_cast<size_t>(k); ++i) {
      const bool there = row && i < row->size();
      tokens.push_back(there ? (*row)[i].token : 0);
      logprobs.push_back(there ? (*row)[i].logprob : kNoCandidate);
    }
  return ProtobufWriter()
      .bytes(1, bytes_of(tokens))
      .bytes(2, bytes_of(logprobs))
      .number(3, static_cast<uint64_t>(k))
      .number(4, rows.size())
      .take();
}

void write_prompt(const SampleRequest& request, const SampleResult& result, ProtobufWriter& output) {
  if (!request.sampling.prompt_logprobs) return;
  const size_t size = request.prompt.size(), known = std::min(size, result.prompt_logprobs.size());
  std::vector<float> logprobs(size, std::nanf(""));
  std::vector<const std::vector<engine::TokenLogprob>*> top(size, nullptr);
  for (size_t i = 0; i < known; ++i) {
    logprobs[size - known + i] = result.prompt_logprobs[i].chosen.logprob;
    top[size - known + i] = &result.prompt_logprobs[i].top;
  }
  if (request.wants_prompt_logprobs) output.bytes(2, bytes_of(logprobs));
  if (request.topk_prompt_logprobs > 0) output.bytes(3, write_top(top, request.topk_prompt_logprobs));
}

}  // namespace

SampleRequest read_sample_request(const Json& body, const SampleLimits& limits) {
  refuse_unsupported(body);
  SampleRequest request;
  request.sampler_id = text_field(body, "sampling_session_id", "");
  request.base_model = text_field(body, "base_model", "");
  request.model_path = text_field(body, "model_path", "");
  request.seq_id = integer_field(body, "seq_id", 0, 0);
  request.num_samples = integer_field(body, "num_samples", 1, 1, limits.num_samples);
  request.prompt = prompt_tokens(body.value("prompt", Json()));
  if (request.prompt.empty()) throw RequestError("prompt: it holds no token");
  read_sampling(body.value("sampling_params", Json::object()), request, limits);
  read_logprobs(body, request, limits);
  return request;
}

std::string write_sample_response(const SampleRequest& request, const SampleResult& result) {
  ProtobufWriter output;
  for (const auto& sequence : result.sequences) {
    ProtobufWriter one;
    one.number(1, sequence.at_length ? 1 : 0);
    one.bytes(2, bytes_of(std::vector<int32_t>(sequence.tokens.begin(), sequence.tokens.end())));
    one.bytes(3, bytes_of(sequence.logprobs));
    if (request.topk_sample_logprobs > 0) {
      std::vector<const std::vector<engine::TokenLogprob>*> rows;
      for (const auto& row : sequence.top) rows.push_back(&row);
      one.bytes(4, write_top(rows, request.topk_sample_logprobs));
    }
    output.bytes(1, one.take());
  }
  write_prompt(request, result, output);
  output.number(4, static_cast<uint64_t>(result.cached_tokens));
  return output.take();
}

}  // namespace hone::tinker
