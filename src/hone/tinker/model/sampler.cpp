#include "hone/tinker/model/sampler.h"

#include <algorithm>
#include <random>

#include "hone/base/log.h"
#include "hone/tinker/model/forward_batch.h"
#include "hone/tinker/model/mixed_lora.h"
#include "hone/tinker/wire/request_error.h"

namespace hone::tinker {

struct Sampler::Live {
  SampleJob job;
  SampleResult result;
  size_t unfinished = 0;
  std::string error;
  bool users_fault = false;
};

Outcome failure(const std::string& message, bool users_fault) {
  const Json body = {{"error", message}, {"category", users_fault ? "user" : "server"}};
  return {.failed = true, .body = body.dump(-1, ' ', true, Json::error_handler_t::replace)};
}

Sampler::Sampler(model::CausalLM& model, engine::Engine& engine, std::vector<text::TokenId> end_tokens, size_t max_adapters,
                 OnDone on_done)
    : model_(model),
      engine_(engine),
      end_tokens_(std::move(end_tokens)),
      max_adapters_(max_adapters),
      on_done_(std::move(on_done)) {}

Sampler::~Sampler() = default;

bool Sampler::in_use(const std::string& folder) const {
  if (adapters_.at(folder).holders > 0) return true;
  return std::ranges::any_of(live_, [&](const auto& live) { return live.second->job.folder == folder; });
}

// Adapters in use are kept: there may temporarily be more than `max_adapters`.
void Sampler::make_room() {
  while (adapters_.size() >= max_adapters_) {
    auto oldest = adapters_.end();
    for (auto each = adapters_.begin(); each != adapters_.end(); ++each)
      if (!in_use(each->first) && (oldest == adapters_.end() || each->second.used < oldest->second.used)) oldest = each;
    if (oldest == adapters_.end()) return;
    engine_.unload_adapter(oldest->first);
    adapters_.erase(oldest);
  }
}

std::string Sampler::loaded_adapter(const std::string& folder) {
  if (folder.empty()) return "";
  if (!adapters_.contains(folder)) {
    make_room();
    engine_.load_adapter(folder, folder);
  }
  adapters_[folder].used = ++clock_;
  return folder;
}

void Sampler::hold_adapter(const std::string& folder) { ++adapters_.at(loaded_adapter(folder)).holders; }
void Sampler::release_adapter(const std::string& folder) { --adapters_.at(folder).holders; }

void Sampler::add(SampleJob job) {
  auto live = std::make_shared<Live>();
  live->job = std::move(job);
  const auto& request = live->job.request;
  const auto count = static_cast<size_t>(request.num_samples);
  const uint64_t seed = request.seed ? *request.seed : std::random_device()();
  std::vector<engine::RequestId> added;
  try {
    const auto adapter = loaded_adapter(live->job.folder);
    for (size_t i = 0; i < count; ++i) {
      engine::Request each{.prompt = request.prompt, .sampling = request.sampling, .adapter = adapter};
      each.sampling.seed = count == 1 ? seed : engine::seed_of(seed, i);
      each.sampling.eos_token_ids = end_tokens_;
      each.detokenize = !each.sampling.stop.empty();
      if (i > 0) each.sampling.prompt_logprobs.reset();
      added.push_back(engine_.add(std::move(each)));
    }
  } catch (const UserError& problem) {
    for (auto id : added) engine_.cancel(id);
    const bool theirs = problem.code() == ExitCode::bad_data;
    if (!theirs) log::error("sampling: {}", problem.what());
    return on_done_(live->job.id, failure(theirs ? problem.what() : "the sampler's weights could not be loaded", theirs));
  } catch (const std::exception& problem) {
    for (auto id : added) engine_.cancel(id);
    log::error("sampling: {}", problem.what());
    return on_done_(live->job.id, failure("internal error; see the server's log", false));
  }
  live->unfinished = count;
  live->result.sequences.resize(count);
  for (size_t i = 0; i < count; ++i) requests_.emplace(added[i], std::pair(live, i));
  live_.emplace(live->job.id, live);
}

void Sampler::cancel(const std::string& id) {
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  for (const auto& [request, place] : requests_)
    if (place.first == found->second) engine_.cancel(request);
  std::erase_if(requests_, [&](const auto& each) { return each.second.first == found->second; });
  live_.erase(found);
}

void Sampler::take(engine::RequestOutput output) {
  auto found = requests_.find(output.id);
  if (found == requests_.end()) return;
  auto [live, index] = found->second;
  auto& sequence = live->result.sequences[index];
  sequence.tokens.insert(sequence.tokens.end(), output.tokens.begin(), output.tokens.end());
  for (auto& position : output.logprobs) {
    sequence.logprobs.push_back(position.chosen.logprob);
    sequence.top.push_back(std::move(position.top));
  }
  if (index == 0 && !output.prompt_logprobs.empty()) live->result.prompt_logprobs = std::move(output.prompt_logprobs);
  live->result.cached_tokens = std::max(live->result.cached_tokens, output.cached_tokens);
  if (output.finish == engine::FinishReason::none) return;
  if (output.eos_logprob) {  // an end token is part of the sample here
    sequence.tokens.push_back(output.stop_token);
    sequence.logprobs.push_back(*output.eos_logprob);
    sequence.top.emplace_back();
  }
  sequence.at_length = output.finish == engine::FinishReason::length;
  if (output.finish == engine::FinishReason::error || output.finish == engine::FinishReason::cancelled) {
    live->error = output.error.empty() ? "the sample was cancelled" : output.error;
    live->users_fault = !output.model_broken;
  }
  requests_.erase(found);
  if (--live->unfinished == 0) finish(*live);
}

// The engine's log-probabilities are at temperature 1. For other temperatures they are recomputed for the sampled tokens.
void Sampler::rescale(Live& job) {
  const auto& request = job.job.request;
  const double temperature = request.sampling.temperature;
  if (temperature == 0 || temperature == 1) return;
  at::NoGradGuard no_grad;
  const ActiveAdapters active(model_, {{job.job.folder, 0, 0}}, false);
  for (auto& sequence : job.result.sequences) {
    if (sequence.tokens.empty()) continue;
    std::vector<text::TokenId> text = request.prompt;
    text.insert(text.end(), sequence.tokens.begin(), sequence.tokens.end() - 1);
    auto hidden_th = model_.hidden_states(model::packed_texts({text}, model_.device()));
    auto answer_th =
        hidden_th.narrow(0, static_cast<int64_t>(request.prompt.size()) - 1, static_cast<int64_t>(sequence.tokens.size()));
    auto logps = target_logps(model_, {{job.job.folder, 0, answer_th.size(0)}}, answer_th,
                              {sequence.tokens.begin(), sequence.tokens.end()}, 1 / temperature)
                     .to(at::kCPU, at::kFloat)
                     .contiguous();
    sequence.logprobs.assign(logps.const_data_ptr<float>(), logps.const_data_ptr<float>() + logps.numel());
  }
}

void Sampler::finish(Live& job) {
  const auto id = job.job.id;
  Outcome outcome;
  if (job.error.empty()) {
    rescale(job);
    outcome = {.failed = false, .body = write_sample_response(job.job.request, job.result), .content_type = kProtobuf};
  } else {
    outcome = failure(job.error, job.users_fault);
  }
  live_.erase(id);
  on_done_(id, std::move(outcome));
}

void Sampler::fail_all(const std::string& why) {
  for (const auto& [id, place] : requests_) engine_.cancel(id);
  requests_.clear();
  tuner::set_active(model_, {});
  for (const auto& [id, live] : std::exchange(live_, {})) on_done_(id, failure(why, false));
}

}  // namespace hone::tinker
