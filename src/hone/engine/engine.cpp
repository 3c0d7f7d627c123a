#include "hone/engine/engine.h"

#include <map>
#include <set>
#include <unordered_map>

#include "hone/device/memory.h"
#include "hone/engine/beam_search.h"
#include "hone/engine/cache_size.h"
#include "hone/engine/constraints/automaton.h"
#include "hone/engine/runner.h"
#include "hone/tuner/detach.h"

namespace hone::engine {
namespace {

constexpr int64_t kPriorityStep = 256;  // one level of priority is worth so many later arrivals, so that nothing waits for ever

}  // namespace

struct Engine::Impl {
  model::CausalLM& model;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  EngineConfig config;
  BlockManager blocks;
  Scheduler scheduler;
  Runner runner;
  std::unique_ptr<model::PagedCache> cache;  // none while asleep
  std::unordered_map<RequestId, std::unique_ptr<Sequence>> sequences;
  std::map<RequestId, std::unique_ptr<BeamSearch>> searches;  // their beams are not among the sequences
  std::set<std::string> adapters;
  std::vector<Output> reports;  // what happened between steps
  Stats totals;
  RequestId next_id = 1;

  Impl(model::CausalLM& model, std::shared_ptr<const text::Tokenizer> tokenizer, const EngineConfig& wanted)
      : model(model),
        tokenizer(std::move(tokenizer)),
        config(completed(wanted, model)),
        blocks(config.cache_tokens / config.block_size, config.block_size, config.prefix_cache),
        scheduler({config.max_sequences, config.max_step_tokens, config.speculative_tokens}, blocks),
        runner(model, config.graphs, blocks.blocks_for(config.max_context)) {
    model.set_training(false);
    if (model.device().is_cpu()) device::keep_cpu_buffers();
    if (config.quant_bits) model.quantize(config.quant_bits);
    model.join_projections();
    device::give_back_memory(model.device());  // what the weights left behind
    make_cache();
  }

  void make_cache() {
    cache =
        std::make_unique<model::PagedCache>(model.config(), blocks.blocks(), config.block_size, model.dtype(), model.device());
  }

  void check(const Request& request) const {
    auto size = static_cast<int64_t>(request.prompt.size());
    if (size == 0) throw UserError(ExitCode::bad_data, "the prompt holds no token");
    if (size >= config.max_context)
      throw UserError(ExitCode::bad_data,
                      fmt::format("the prompt has {} tokens; the model's context holds {}", size, config.max_context),
                      "shorten it, or clear the history");
    if (!request.adapter.empty() && !adapters.contains(request.adapter))
      throw UserError(ExitCode::bad_data, fmt::format("no adapter is called \"{}\"", request.adapter));
    if (request.sampling.beams > config.max_sequences)
      throw UserError(ExitCode::bad_data, fmt::format("{} beams are asked for; {} sequences are computed at a time",
                                                      request.sampling.beams, config.max_sequences));
    if (request.sampling.beam_answers > request.sampling.beams)
      throw UserError(ExitCode::bad_data,
                      fmt::format("{} beams cannot give {} answers", request.sampling.beams, request.sampling.beam_answers));
    for (auto token : request.prompt)
      if (token < 0 || token >= model.config().vocabulary)
        throw UserError(ExitCode::bad_data,
                        fmt::format("the prompt holds token {}; the model knows 0 to {}", token, model.config().vocabulary - 1));
  }

  // A constraint may turn out to be too large while it is followed: that ends its own request.
  Output taken(const Slice& slice, const StepLogits& logits, size_t index) {
    try {
      return take(slice, logits, index);
    } catch (const TooManyStates& problem) {
      return {.id = slice.sequence->id, .finish = FinishReason::error, .error = problem.what()};
    }
  }

  // What the samplers make of one slice's logits.
  Output take(const Slice& slice, const StepLogits& logits, size_t index) {
    auto& sequence = *slice.sequence;
    Output output{.id = sequence.id,
                  .prompt_tokens = sequence.prompt_size,
                  .cached_tokens = sequence.cached.value_or(0),
                  .weights_version = totals.weights_version};
    int64_t rows = logits.slices[index].count, accepted = 0;
    if (rows == 0) {
      sequence.computed += slice.count;
      return output;
    }
    if (sequence.search) {
      sequence.search->consider(sequence, logits.row(index, 0));
      sequence.computed += slice.count;
      return output;
    }
    if (sequence.generated() == 0) output.prompt_logprobs = std::move(sequence.prompt_logprobs);
    sequence.computed += slice.count - rows;  // what stands before the first row that is looked at
    for (int64_t i = 0; i < rows; ++i) {
      auto token =
          logits.slices[index].chosen >= 0 ? logits.slices[index].chosen : choose(sequence, logits.row(index, i), output);
      bool as_guessed = i + 1 < rows && token == sequence.guess[static_cast<size_t>(i)];
      sequence.advance(token, output);
      ++accepted;
      if (output.finish != FinishReason::none || !as_guessed) break;
    }
    sequence.computed += accepted;
    return output;
  }

  static text::TokenId choose(Sequence& sequence, std::span<float> logits, Output& output) {
    const auto& wanted = sequence.request.sampling.logprobs;
    if (!wanted) return sequence.sampler.choose(logits);
    std::vector<float> raw(logits.begin(), logits.end());
    auto token = sequence.sampler.choose(logits);
    output.logprobs.push_back(position_logprobs(raw, token, *wanted));
    return token;
  }

  void settle(const Slice& slice, const Output& output) {
    auto& sequence = *slice.sequence;
    blocks.publish(sequence.tokens, sequence.request.adapter, sequence.blocks, sequence.published, sequence.computed);
    sequence.published = sequence.computed / config.block_size;
    if (sequence.search) return;
    auto added = static_cast<int64_t>(output.tokens.size());
    totals.generated_tokens += added;
    totals.guessed_tokens += static_cast<int64_t>(sequence.guess.size());
    totals.accepted_tokens += sequence.guess.empty() ? 0 : std::max<int64_t>(0, added - 1);
    if (added > 0 && sequence.generated() == added) {
      totals.prompt_tokens += sequence.prompt_size;
      totals.cached_tokens += sequence.cached.value_or(0);
    }
    if (output.finish == FinishReason::none) return;
    scheduler.remove(sequence);
    sequences.erase(sequence.id);
  }

  // The searches whose beams have all been computed choose which go on.
  void advance_searches(std::vector<Output>& outputs) {
    std::vector<BlockCopy> copies;
    for (auto place = searches.begin(); place != searches.end();) {
      auto& search = *place->second;
      if (!search.ready() || search.advance(scheduler, next_id, copies)) {
        ++place;
        continue;
      }
      for (auto& answer : search.answers()) {
        answer.weights_version = totals.weights_version;
        totals.generated_tokens += static_cast<int64_t>(answer.tokens.size());
        outputs.push_back(std::move(answer));
      }
      totals.prompt_tokens += static_cast<int64_t>(search.request().prompt.size());
      for (auto* sequence : search.sequences()) scheduler.remove(*sequence);
      place = searches.erase(place);
    }
    copy(copies);
  }

  void copy(const std::vector<BlockCopy>& copies) {
    std::vector<int64_t> from, to;
    for (auto [source, target] : copies) from.push_back(source), to.push_back(target);
    cache->copy_blocks(from, to);
  }

  bool uses(const std::string& adapter) const {
    auto of = [&](const Request& request) { return request.adapter == adapter; };
    return std::ranges::any_of(sequences, [&](const auto& each) { return of(each.second->request); }) ||
           std::ranges::any_of(searches, [&](const auto& each) { return of(each.second->request()); });
  }
};

Engine::Engine(model::CausalLM& model, std::shared_ptr<const text::Tokenizer> tokenizer, const EngineConfig& config)
    : impl_(std::make_unique<Impl>(model, std::move(tokenizer), config)) {}
Engine::~Engine() = default;

RequestId Engine::add(Request request) {
  auto& self = *impl_;
  self.check(request);
  auto size = static_cast<int64_t>(request.prompt.size());
  if (size >= self.config.cache_tokens)
    throw UserError(ExitCode::bad_data,
                    fmt::format("the prompt has {} tokens; the cache holds {}", size, self.config.cache_tokens),
                    "shorten it, or give the engine more memory");
  auto& max_tokens = request.sampling.max_tokens;
  max_tokens = std::max<int64_t>(1, std::min({max_tokens, self.config.max_context - size, self.config.cache_tokens - size}));
  auto id = self.next_id++;
  auto rank = static_cast<int64_t>(id) + request.priority * kPriorityStep;
  auto sequence = std::make_unique<Sequence>(id, std::move(request), rank, *self.tokenizer);
  self.scheduler.add(*sequence);
  if (sequence->request.sampling.beams > 1)
    self.searches.emplace(id, std::make_unique<BeamSearch>(std::move(sequence)));
  else
    self.sequences.emplace(id, std::move(sequence));
  return id;
}

void Engine::cancel(RequestId id) {
  auto& self = *impl_;
  if (auto search = self.searches.find(id); search != self.searches.end()) {
    for (auto* sequence : search->second->sequences()) self.scheduler.remove(*sequence);
    auto answers = static_cast<size_t>(search->second->request().sampling.beam_answers);
    for (size_t i = 0; i < answers; ++i) self.reports.push_back({.id = id, .answer = i, .finish = FinishReason::cancelled});
    self.searches.erase(search);
    return;
  }
  auto found = self.sequences.find(id);
  if (found == self.sequences.end()) return;
  self.scheduler.remove(*found->second);
  self.reports.push_back({.id = id, .finish = FinishReason::cancelled, .prompt_tokens = found->second->prompt_size});
  self.sequences.erase(found);
}

std::vector<Output> Engine::step() {
  auto& self = *impl_;
  at::InferenceMode inference;
  auto outputs = std::exchange(self.reports, {});
  if (!self.cache) return outputs;
  auto batch = self.scheduler.schedule();
  if (batch.empty()) return outputs;
  auto logits = self.runner.compute(batch, *self.cache);
  std::vector<Output> results(batch.slices.size());
  at::parallel_for(0, static_cast<int64_t>(results.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      results[i] = self.taken(batch.slices[i], logits, i);
  });
  for (size_t i = 0; i < results.size(); ++i) {
    bool chose = logits.slices[i].count > 0 && !batch.slices[i].sequence->search;
    self.settle(batch.slices[i], results[i]);
    if (chose) outputs.push_back(std::move(results[i]));
  }
  self.advance_searches(outputs);
  ++self.totals.steps;
  return outputs;
}

bool Engine::idle() const { return impl_->reports.empty() && impl_->sequences.empty() && impl_->searches.empty(); }
int64_t Engine::max_context() const { return impl_->config.max_context; }

Stats Engine::stats() const {
  auto stats = impl_->totals;
  stats.running = impl_->scheduler.running();
  stats.waiting = impl_->scheduler.waiting();
  stats.blocks = impl_->blocks.blocks();
  stats.blocks_used = stats.blocks - impl_->blocks.free_blocks();
  stats.preemptions = impl_->scheduler.preemptions();
  stats.asleep = !impl_->cache;
  return stats;
}

void Engine::load_adapter(const std::string& name, const std::filesystem::path& folder) {
  auto& self = *impl_;
  if (name.empty() || self.adapters.contains(name))
    throw UserError(ExitCode::usage, fmt::format("an adapter called \"{}\" is already loaded", name));
  auto refusal = tuner::why_not_beside_others(folder);
  if (refusal.empty()) {
    tuner::load_adapter(self.model, folder, {.name = name, .dtype = self.model.dtype()});
    tuner::set_inactive(self.model, name);
    if (self.config.quant_bits && tuner::carries_magnitudes(self.model, name)) refusal = "DoRA needs the weights before rounding";
  }
  if (!refusal.empty()) {
    tuner::detach_adapter(self.model, name);
    throw UserError(ExitCode::usage, fmt::format("{}: {}", folder.string(), refusal),
                    "merge it into the model instead (--merge_lora true)");
  }
  self.adapters.insert(name);
}

void Engine::unload_adapter(const std::string& name) {
  auto& self = *impl_;
  auto found = self.adapters.find(name);
  if (found == self.adapters.end()) throw UserError(ExitCode::usage, fmt::format("no adapter is called \"{}\"", name));
  if (self.uses(name))
    throw UserError(ExitCode::usage, fmt::format("the adapter \"{}\" is in use", name), "wait until its requests are done");
  tuner::detach_adapter(self.model, name);
  self.adapters.erase(found);
  self.blocks.forget();  // another adapter may come under the same name
}

std::vector<std::string> Engine::adapters() const { return {impl_->adapters.begin(), impl_->adapters.end()}; }

void Engine::update_weights(int64_t version) {
  auto& self = *impl_;
  HONE_CHECK(!self.config.quant_bits, "rounded weights cannot follow a trainer");
  self.scheduler.preempt_all();
  self.blocks.forget();
  self.totals.weights_version = version;
}

void Engine::sleep() {
  auto& self = *impl_;
  self.scheduler.preempt_all();
  self.blocks.forget();
  self.runner.forget_graphs();
  self.cache.reset();
  device::give_back_memory(self.model.device());
}

void Engine::wake() {
  if (!impl_->cache) impl_->make_cache();
}

}  // namespace hone::engine
