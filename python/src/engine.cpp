// Engine: what a Sampler's thread drives.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "hone/data/batches/image_batch.h"
#include "hone/engine/engine.h"
#include "hone/engine/prompt_images.h"
#include "hone/train/evaluation/evaluation_mode.h"
#include "objects.h"

namespace hone::python {
namespace {

struct Engine {
  Engine(Model& served, const engine::EngineConfig& config)
      : model(served), runner(*served.lm, served.tokenizer, config), version(served.version) {}
  Model& model;
  engine::Engine runner;
  int64_t version;  // of the weights that the cache was computed with
};

Engine* make_engine(Model& model, int64_t max_model_len, int64_t max_num_seqs, int64_t kv_cache_tokens,
                    bool enable_return_routed_experts) {
  return with_model(model, [&] {
    engine::EngineConfig config;
    config.max_model_len = max_model_len;
    config.max_num_seqs = max_num_seqs;
    config.kv_cache_tokens = kv_cache_tokens;
    config.enable_return_routed_experts = enable_return_routed_experts;
    config.fuse_projections = !model.trained;  // what trains stays the tensors that the trainer knows
    train::EvaluationMode mode(*model.lm);
    return new Engine(model, config);
  });
}

// Sampling settings as JSON text, whose keys hone/sampler.py made.
engine::SamplingParams sampling_of(const Json& given) {
  engine::SamplingParams sampling;
  sampling.temperature = given.at("temperature").get<double>();
  sampling.top_k = given.at("top_k").get<int64_t>();
  sampling.top_p = given.at("top_p").get<double>();
  sampling.min_p = given.at("min_p").get<double>();
  sampling.seed = given.at("seed").get<uint64_t>();
  sampling.repetition_penalty = given.at("repetition_penalty").get<double>();
  sampling.presence_penalty = given.at("presence_penalty").get<double>();
  sampling.frequency_penalty = given.at("frequency_penalty").get<double>();
  sampling.max_tokens = given.at("max_tokens").get<int64_t>();
  sampling.min_tokens = given.at("min_tokens").get<int64_t>();
  sampling.stop = given.at("stop").get<std::vector<std::string>>();
  sampling.stop_tokens = given.at("stop_token_ids").get<std::vector<text::TokenId>>();
  sampling.eos_token_ids = given.at("eos_token_ids").get<std::vector<text::TokenId>>();
  if (!given.at("logprobs").is_null()) sampling.logprobs = given.at("logprobs").get<int64_t>();
  if (!given.at("prompt_logprobs").is_null()) sampling.prompt_logprobs = given.at("prompt_logprobs").get<int64_t>();
  return sampling;
}

const char* word_of(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::none:
      return "";
    case engine::FinishReason::stop:
      return "stop";
    case engine::FinishReason::length:
      return "length";
    case engine::FinishReason::cancelled:
      return "cancelled";
    case engine::FinishReason::error:
      return "error";
  }
  return "";
}

// Of a prompt's media, which are decoded here, once for all its answers.
struct PromptImages {
  std::shared_ptr<const engine::PromptImages> images;
};
PromptImages prompt_images(const std::vector<text::TokenId>& prompt, const Media& media) {
  check_placeholders(media, prompt);
  auto batch = data::prompt_batch(prompt, media.pictures, media.sounds).or_throw(ExitCode::bad_data, "prompt");
  return {engine::PromptImages::of(std::move(batch))};
}

uint64_t add_request(Engine& self, std::vector<text::TokenId> prompt, const std::string& settings, const std::string& adapter,
                     const PromptImages* images) {
  return with_model(self.model, [&] {
    if (self.version != self.model.version) {
      self.runner.update_weights(self.model.version);
      self.version = self.model.version;
    }
    engine::Request request{.prompt = std::move(prompt), .adapter = adapter};
    request.sampling = sampling_of(Json::parse(settings));
    if (images) request.images = images->images;
    return self.runner.add(std::move(request));
  });
}

// Of each token of the prompt but the first: its own, then the most likely ones.
using TokenLogprobs = std::vector<std::pair<text::TokenId, float>>;
std::vector<TokenLogprobs> prompt_logprobs(const engine::RequestOutput& output) {
  std::vector<TokenLogprobs> positions;
  for (const auto& position : output.prompt_logprobs) {
    auto& tokens = positions.emplace_back(TokenLogprobs{{position.chosen.token, position.chosen.logprob}});
    for (const auto& [token, logprob] : position.top) tokens.emplace_back(token, logprob);
  }
  return positions;
}

std::vector<float> chosen_logprobs(const engine::RequestOutput& output) {
  std::vector<float> values;
  for (const auto& position : output.logprobs) values.push_back(position.chosen.logprob);
  return values;
}

// int16 as bytes, for numpy.
nb::bytes routed_experts(const engine::RequestOutput& output) {
  return nb::bytes(output.routed_experts.data(), output.routed_experts.size() * sizeof(int16_t));
}

// Layers with experts, and the experts of a token.
std::pair<int64_t, int64_t> routed_shape(const Engine& self) {
  const auto& experts = self.model.lm->config().experts;
  return {std::ranges::count(experts.in_layer, true), experts.num_experts_per_tok};
}

}  // namespace

void bind_engine(nb::module_& m) {
  nb::class_<engine::RequestOutput>(m, "RequestOutput")
      .def_ro("id", &engine::RequestOutput::id)
      .def_ro("tokens", &engine::RequestOutput::tokens)
      .def_ro("text", &engine::RequestOutput::text)
      .def_ro("error", &engine::RequestOutput::error)
      .def_ro("model_broken", &engine::RequestOutput::model_broken)
      .def_ro("prompt_tokens", &engine::RequestOutput::prompt_tokens)
      .def_ro("stop_token", &engine::RequestOutput::stop_token)
      .def_ro("eos_logprob", &engine::RequestOutput::eos_logprob)
      .def_prop_ro("logprobs", chosen_logprobs)
      .def_prop_ro("routed_experts", routed_experts)
      .def_prop_ro("prompt_logprobs", prompt_logprobs)
      .def_prop_ro("finish", [](const engine::RequestOutput& self) { return std::string(word_of(self.finish)); });

  nb::class_<PromptImages>(m, "PromptImages")
      .def_static(
          "make",
          [](const std::vector<text::TokenId>& prompt, const Media& media) {
            return without_gil([&] { return prompt_images(prompt, media); });
          },
          nb::arg("prompt"), nb::arg("media"));

  nb::class_<Engine>(m, "Engine")
      .def_static("make", make_engine, nb::arg("model"), nb::arg("max_model_len"), nb::arg("max_num_seqs"),
                  nb::arg("kv_cache_tokens"), nb::arg("enable_return_routed_experts"), nb::rv_policy::take_ownership,
                  nb::keep_alive<0, 1>())
      .def("add", add_request, nb::arg("prompt"), nb::arg("settings"), nb::arg("adapter"), nb::arg("images").none() = nb::none())
      .def(
          "cancel", [](Engine& self, uint64_t id) { with_model(self.model, [&] { self.runner.cancel(id); }); }, nb::arg("id"))
      .def("step",
           [](Engine& self) {
             return with_model(self.model, [&] {
               train::EvaluationMode mode(*self.model.lm);
               return self.runner.step();
             });
           })
      .def("idle", [](Engine& self) { return with_model(self.model, [&] { return self.runner.idle(); }); })
      .def(
          "load_adapter",
          [](Engine& self, const std::string& name, const std::string& folder) {
            with_model(self.model, [&] { self.runner.load_adapter(name, folder); });
          },
          nb::arg("name"), nb::arg("folder"))
      .def(
          "unload_adapter",
          [](Engine& self, const std::string& name) { with_model(self.model, [&] { self.runner.unload_adapter(name); }); },
          nb::arg("name"))
      .def_prop_ro("adapters", [](Engine& self) { return with_model(self.model, [&] { return self.runner.adapters(); }); })
      .def_prop_ro("routed_shape", routed_shape)
      .def_prop_ro("max_model_len", [](const Engine& self) { return self.runner.max_model_len(); });
}

}  // namespace hone::python
