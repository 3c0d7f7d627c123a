#include "hone/engine/engine.h"

#include <ranges>
#include <set>

#include "hone/base/error.h"
#include "hone/base/log.h"
#include "hone/device/memory.h"
#include "hone/device/num_threads.h"
#include "hone/engine/data_parallel/replica_thread.h"
#include "hone/engine/data_parallel/request_router.h"
#include "hone/engine/kv_cache_size.h"
#include "hone/model/decoder.h"
#include "hone/model/inference/fused_projection.h"
#include "hone/model/inference/tensor_parallel_decoder.h"
#include "hone/model/inference/weight_quantization.h"
#include "hone/tuner/multi_adapter.h"

namespace hone::engine {
namespace {

// Quantizes and fuses linear layers once, even if replicas share them.
void prepare_for_inference(model::CausalLM& model, const EngineConfig& config) {
  model.set_training(false);
  if (model.device().is_cpu()) device::enable_cpu_caching_allocator();
  if (config.quant_bits) model::apply_quantization(model, config.quant_bits);
  if (config.fuse_projections) model::fuse_projections(model);
  if (config.float8_products) model::apply_float8(model);
  for (auto device : model::devices_of(model.decoder())) device::empty_cache(device);  // frees temporary memory of loading
}

Stats sum_of(const Stats& a, const Stats& b) {
  auto sum = a;
  for (auto field :
       {&Stats::running, &Stats::waiting, &Stats::blocks, &Stats::blocks_used, &Stats::steps, &Stats::prompt_tokens,
        &Stats::cached_tokens, &Stats::generated_tokens, &Stats::preemptions, &Stats::num_draft_tokens, &Stats::accepted_tokens})
    sum.*field += b.*field;
  return sum;
}

}  // namespace

struct Engine::Impl {
  EngineConfig config;
  std::vector<model::CausalLM*> models;  // each once
  std::vector<std::unique_ptr<Replica>> replicas;
  StepEvent bell;
  std::vector<std::unique_ptr<ReplicaThread>> threads;  // none for a single replica, which steps on the caller's thread
  bool quiet = false;                                   // the threads are paused: asleep, or a step failed
  RequestRouter router;
  std::vector<RequestOutput> kept;  // outputs to report after a failure, with the next step
  std::set<std::string> adapters;
  RequestId next_id = 1;

  Impl(const std::vector<model::CausalLM*>& copies, const std::shared_ptr<const text::Tokenizer>& tokenizer,
       const EngineConfig& wanted)
      : config(wanted), router(copies.size(), wanted.max_num_seqs) {
    HONE_CHECK(!copies.empty(), "an engine without a model");
    for (auto* model : copies) {
      if (std::ranges::count(models, model)) continue;
      prepare_for_inference(*model, config);
      models.push_back(model);
    }
    for (auto* model : copies) {
      auto share = config;
      if (model->device().is_cpu()) share.gpu_memory_utilization /= static_cast<double>(std::ranges::count(copies, model));
      replicas.push_back(std::make_unique<Replica>(*model, tokenizer, resolve_engine_config(share, *model)));
    }
    if (copies.size() == 1) return;
    int cores = std::max(1, device::num_threads() / static_cast<int>(copies.size()));
    for (auto& replica : replicas) threads.push_back(std::make_unique<ReplicaThread>(*replica, bell, cores));
  }

  void on_replica(size_t index, std::function<void(Replica&)> work) {
    threads.empty() ? work(*replicas[index]) : threads[index]->post(std::move(work));
  }

  // Runs between the steps of all replicas, which may share a model.
  template <class Work>
  void between_steps(Work work) {
    if (!quiet)
      for (auto& thread : threads) thread->pause();
    auto go_on = [&] {
      if (!quiet)
        for (auto& thread : threads) thread->resume();
    };
    try {
      work();
    } catch (...) {
      go_on();
      throw;
    }
    go_on();
  }

  void set_quiet(bool wanted) {
    for (auto& thread : threads) wanted ? thread->pause() : thread->resume();
    quiet = wanted;
  }

  bool asleep() const { return replicas[0]->stats().asleep; }

  // A failed replica ends its own requests while the others continue. One that keeps failing receives no more requests.
  void give_up_requests_of(size_t index, const std::string& why, std::vector<RequestOutput>& outputs) {
    log::error("replica {} failed; its requests are cancelled: {}", index, why);
    const bool worked = router.works(index);
    router.count_failure(index);
    if (worked && !router.works(index))
      log::error("replica {} failed {} times in a row: it gets no more requests", index, RequestRouter::kMaxFailures);
    std::ranges::move(threads[index]->collect(), std::back_inserter(outputs));  // from earlier steps
    for (const auto& [id, request] : router.live()) {
      if (request.replica != index) continue;
      threads[index]->post([id = id](Replica& replica) { replica.abandon(id); });  // at once: it has paused itself
      for (size_t i = 0; i < static_cast<size_t>(request.pending_completions); ++i)
        outputs.push_back(
            {.id = id, .index = i, .finish = FinishReason::error, .error = "the engine failed", .model_broken = true});
    }
    threads[index]->resume();
  }

  // If no replica works, the caller decides about stalled requests.
  std::vector<RequestOutput> gathered() {
    if (router.live().empty()) return std::exchange(kept, {});
    if (quiet && !asleep()) set_quiet(false);
    if (!quiet) bell.wait();
    auto outputs = std::exchange(kept, {});
    std::exception_ptr failure;
    std::vector<std::pair<size_t, std::string>> failed;
    for (size_t i = 0; i < threads.size(); ++i) {
      try {
        auto more = quiet ? replicas[i]->step() : threads[i]->collect();
        if (!more.empty()) router.count_success(i);
        std::ranges::move(more, std::back_inserter(outputs));
      } catch (const std::exception& problem) {
        failure = std::current_exception();
        failed.emplace_back(i, problem.what());
      }
    }
    if (!failure) return outputs;
    bool one_works = std::ranges::any_of(std::views::iota(size_t{0}, threads.size()), [&](size_t i) {
      return router.works(i) && std::ranges::none_of(failed, [&](const auto& each) { return each.first == i; });
    });
    if (!quiet && one_works) {
      for (const auto& [index, why] : failed) give_up_requests_of(index, why, outputs);
      return outputs;
    }
    set_quiet(true);
    kept = std::move(outputs);
    std::rethrow_exception(failure);
  }

  // Why the adapter cannot be served with this model, checked once it is attached. Empty if it can.
  std::string why_not_on(model::CausalLM& model, const std::string& name) const {
    if (tuner::changes_experts(model, name) && model::is_tensor_parallel(model))
      return "it changes experts, whose adapters do not support tensor parallelism";
    return config.quant_bits && tuner::uses_dora(model, name) ? "DoRA needs the weights before rounding" : "";
  }

  void attach(model::CausalLM& model, const std::string& name, const std::filesystem::path& folder) {
    auto refusal = tuner::multi_adapter_conflict(folder);
    if (refusal.empty()) {
      tuner::load_adapter(model, folder, {.name = name, .dtype = model.dtype()});
      tuner::set_inactive(model, name);
      refusal = why_not_on(model, name);
    }
    if (!refusal.empty())
      throw UserError(ExitCode::usage, fmt::format("{}: {}", folder.string(), refusal),
                      "merge it into the model instead (`merge_lora` true)");
  }
};

Engine::Engine(model::CausalLM& model, std::shared_ptr<const text::Tokenizer> tokenizer, const EngineConfig& config)
    : Engine(std::vector{&model}, std::move(tokenizer), config) {}
Engine::Engine(const std::vector<model::CausalLM*>& models, std::shared_ptr<const text::Tokenizer> tokenizer,
               const EngineConfig& config)
    : impl_(std::make_unique<Impl>(models, tokenizer, config)) {}
Engine::~Engine() = default;

RequestId Engine::add(Request request) {
  auto& self = *impl_;
  if (!request.adapter.empty() && !self.adapters.contains(request.adapter))
    throw UserError(ExitCode::bad_data, fmt::format("no adapter is called \"{}\"", request.adapter));
  auto replica = self.router.replica_for(request);
  self.replicas[replica]->validate_and_clamp(request);
  auto id = self.next_id++;
  self.router.add(id, request, replica);
  self.on_replica(replica, [id, request = std::move(request)](Replica& chosen) mutable { chosen.add(id, std::move(request)); });
  return id;
}

void Engine::cancel(RequestId id) {
  if (const auto* request = impl_->router.find(id))
    impl_->on_replica(request->replica, [id](Replica& replica) { replica.cancel(id); });
}

std::vector<RequestOutput> Engine::step() {
  auto outputs = impl_->threads.empty() ? impl_->replicas[0]->step() : impl_->gathered();
  for (const auto& output : outputs) impl_->router.finish(output);
  return outputs;
}

void Engine::wake_step() { impl_->bell.notify(); }

bool Engine::idle() const { return impl_->router.live().empty() && impl_->kept.empty(); }
bool Engine::has_no_work() const {
  if (idle()) return true;
  bool still = impl_->threads.empty() || impl_->quiet;
  return still && impl_->asleep() && impl_->kept.empty() && std::ranges::none_of(impl_->replicas, &Replica::has_pending_outputs);
}
int64_t Engine::max_model_len() const { return impl_->replicas[0]->config().max_model_len; }

Stats Engine::stats() const {
  auto of = [&](size_t i) {
    return impl_->threads.empty() || impl_->quiet ? impl_->replicas[i]->stats() : impl_->threads[i]->stats();
  };
  auto stats = of(0);
  for (size_t i = 1; i < impl_->replicas.size(); ++i) stats = sum_of(stats, of(i));
  return stats;
}

std::chrono::milliseconds Engine::current_step_time() const {
  std::chrono::milliseconds longest{};
  for (const auto& thread : impl_->threads) longest = std::max(longest, thread->in_step());
  return longest;
}

void Engine::load_adapter(const std::string& name, const std::filesystem::path& folder) {
  auto& self = *impl_;
  if (name.empty() || self.adapters.contains(name))
    throw UserError(ExitCode::usage, fmt::format("an adapter called \"{}\" is already loaded", name));
  self.between_steps([&] {
    try {
      for (auto* model : self.models) self.attach(*model, name, folder);
    } catch (...) {
      for (auto* model : self.models) tuner::delete_adapter(*model, name);  // on all replicas or on none
      throw;
    }
  });
  self.adapters.insert(name);
}

void Engine::unload_adapter(const std::string& name) {
  auto& self = *impl_;
  auto found = self.adapters.find(name);
  if (found == self.adapters.end()) throw UserError(ExitCode::usage, fmt::format("no adapter is called \"{}\"", name));
  if (self.router.uses_adapter(name))
    throw UserError(ExitCode::usage, fmt::format("the adapter \"{}\" is in use", name), "wait until its requests are done");
  self.between_steps([&] {
    for (auto* model : self.models) tuner::delete_adapter(*model, name);
    for (auto& replica : self.replicas) replica->reset_prefix_cache();  // another adapter may reuse the name
  });
  self.adapters.erase(found);
}

std::vector<std::string> Engine::adapters() const { return {impl_->adapters.begin(), impl_->adapters.end()}; }

void Engine::update_weights(int64_t version) {
  auto& self = *impl_;
  HONE_CHECK(!self.config.quant_bits && !self.config.float8_products, "rounded weights cannot follow a trainer");
  self.between_steps([&] {
    for (auto& replica : self.replicas) replica->update_weights(version);
  });
}

void Engine::sleep() {
  impl_->set_quiet(true);
  for (auto& replica : impl_->replicas) replica->sleep();
}

void Engine::wake() {
  for (auto& replica : impl_->replicas) replica->wake();
  impl_->set_quiet(false);
}

}  // namespace hone::engine
