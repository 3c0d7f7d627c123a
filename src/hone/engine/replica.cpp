#include "hone/engine/replica.h"

#include <algorithm>

#include "hone/device/memory.h"
#include "hone/engine/kv_cache_size.h"
#include "hone/engine/validate_request.h"
#include "hone/model/decoder.h"

namespace hone::engine {
namespace {

constexpr int64_t kPriorityStep = 256;  // one priority level outweighs this many later arrivals, so that nothing starves
constexpr RequestId kFirstBeam = RequestId{1} << 63;

}  // namespace

Replica::Replica(model::CausalLM& model, std::shared_ptr<const text::Tokenizer> tokenizer, const EngineConfig& config)
    : model_(model),
      tokenizer_(std::move(tokenizer)),
      config_(config),
      blocks_(config.kv_cache_tokens / config.block_size, config.block_size, config.enable_prefix_caching),
      scheduler_({.max_sequences = config.max_num_seqs,
                  .max_step_tokens = config.max_num_batched_tokens,
                  .speculative_tokens = config.speculative_tokens,
                  .keep_images_in_one_chunk = model.config().vision && model.config().vision->bidirectional_images,
                  .state_slots = model.config().linear_attention ? config.max_num_seqs : 0},
                 blocks_),
      runner_(model,
              {.enabled = config.use_cuda_graphs && model::devices_of(model.decoder()).size() == 1 &&
                          !config.enable_return_routed_experts,
               .max_blocks = blocks_.blocks_for(config.max_model_len),
               .block_size = config.block_size,
               .kv_cache_dtype = config.kv_cache_dtype},
              config.enable_return_routed_experts
                  ? std::make_unique<RoutedExperts>(model.config(), blocks_.blocks(), config.block_size)
                  : nullptr),
      next_beam_(kFirstBeam) {
  make_cache();
}

void Replica::make_cache() {
  cache_ =
      std::make_unique<model::PagedKvCache>(kv_cache_shape(model_), blocks_.blocks(), config_.block_size, model_.dtype(),
                                            model::block_devices(model_.decoder()), config_.kv_cache_dtype, config_.max_num_seqs);
}

void Replica::validate_and_clamp(Request& request) const {
  engine::validate_and_clamp(request, config_, model_.config().vocab_size);
}

void Replica::add(RequestId id, Request request) {
  auto queue_priority = static_cast<int64_t>(id) + request.priority * kPriorityStep;
  request.sampling.batch_invariant &= model_.device().is_cpu();
  auto sequence = std::make_unique<Sequence>(id, std::move(request), queue_priority, *tokenizer_);
  scheduler_.add(*sequence);
  if (sequence->request.sampling.num_beams > 1)
    searches_.emplace(id, std::make_unique<BeamSearch>(std::move(sequence)));
  else
    sequences_.emplace(id, std::move(sequence));
}

void Replica::cancel(RequestId id) {
  if (auto search = searches_.find(id); search != searches_.end()) {
    for (auto* sequence : search->second->sequences()) scheduler_.remove(*sequence);
    auto completions = static_cast<size_t>(search->second->request().sampling.num_return_sequences);
    for (size_t i = 0; i < completions; ++i)
      pending_outputs_.push_back({.id = id, .index = i, .finish = FinishReason::cancelled});
    searches_.erase(search);
    return;
  }
  auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  scheduler_.remove(*found->second);
  pending_outputs_.push_back({.id = id, .finish = FinishReason::cancelled, .prompt_tokens = found->second->prompt_size});
  sequences_.erase(found);
}

void Replica::abandon(RequestId id) {
  cancel(id);
  std::erase_if(pending_outputs_, [&](const RequestOutput& output) { return output.id == id; });
}

// A pass that fails may have advanced some layers' recurrent states, which then no longer are those of the computed tokens.
std::vector<RequestOutput> Replica::step() {
  try {
    return run_step();
  } catch (...) {
    if (cache_ && cache_->states()) {
      in_flight_.reset();
      scheduler_.preempt_all();
    }
    throw;
  }
}

// While the device computes a decode step, the next one is prepared and launched with tokens that are not yet on the host; only
// then does the host wait. If a sequence turns out to have ended, the row launched for it is wasted.
std::vector<RequestOutput> Replica::run_step() {
  at::InferenceMode inference;
  auto current = std::exchange(in_flight_, std::nullopt);
  if (!current) {
    auto batch = cache_ ? scheduler_.schedule() : StepBatch();
    if (!searches_.empty() || !runner_.can_run_ahead(batch)) return step_and_wait(batch);
    std::vector<Sequence*> sequences;
    for (const auto& chunk : batch.chunks) sequences.push_back(chunk.sequence);
    current = runner_.launch(sequences, *cache_, nullptr);
  }
  in_flight_ = launch_ahead(*current);
  std::vector<RequestOutput> outputs;
  take_tokens(*current, outputs);
  if (sequences_.empty()) drop_step_in_flight();
  ++totals_.steps;
  std::ranges::move(std::exchange(pending_outputs_, {}), std::back_inserter(outputs));
  return outputs;
}

// The step after one in flight, if the scheduler has nothing to decide: no new request, and enough memory.
std::optional<DecodesInFlight> Replica::launch_ahead(const DecodesInFlight& current) {
  if (scheduler_.may_admit() || scheduler_.running() != static_cast<int64_t>(current.rows.size())) return std::nullopt;
  std::vector<Sequence*> sequences;
  for (auto id : current.rows) {
    auto found = sequences_.find(id);
    if (found == sequences_.end()) return std::nullopt;  // cancelled: its slot is free
    auto& sequence = *found->second;
    if (sequence.generated() + 1 >= sequence.request.sampling.max_tokens) continue;  // ends with the token in flight
    if (!scheduler_.reserve(sequence, 2)) return std::nullopt;
    sequences.push_back(&sequence);
  }
  if (sequences.empty()) return std::nullopt;
  return runner_.launch(sequences, *cache_, &current);
}

void Replica::take_tokens(DecodesInFlight& step, std::vector<RequestOutput>& outputs) {
  step.done.synchronize();
  const auto* tokens = step.on_host_r.const_data_ptr<int64_t>();
  StepLogits logits{.chunks = {{.count = 1}}, .vocabulary = model_.config().vocab_size};
  const auto sampler = sampler_of(logits);
  for (size_t i = 0; i < step.rows.size(); ++i) {
    auto found = sequences_.find(step.rows[i]);
    if (found == sequences_.end()) continue;  // cancelled, or ended with the previous token
    ScheduledChunk chunk{found->second.get(), 1};
    logits.chunks[0].sampled = static_cast<text::TokenId>(tokens[i]);
    outputs.push_back(sampler.sample(chunk, 0));
    commit_chunk(chunk, outputs.back());
  }
}

void Replica::drop_step_in_flight() {
  if (in_flight_) in_flight_->done.synchronize();
  in_flight_.reset();
}

ChunkSampler Replica::sampler_of(const StepLogits& logits) const {
  return {logits, runner_.routed_experts(), totals_.weights_version};
}

std::vector<RequestOutput> Replica::step_and_wait(const StepBatch& batch) {
  auto logits = batch.empty() ? StepLogits() : runner_.compute(batch, *cache_);
  auto outputs = std::exchange(pending_outputs_, {});  // after code that may throw, so that no output is lost
  if (batch.empty()) return outputs;
  const auto sampler = sampler_of(logits);
  std::vector<RequestOutput> results(batch.chunks.size());
  auto count = static_cast<int64_t>(results.size());
  auto grain = logits.on_host.empty() ? count : 1;  // tokens sampled on the device are only recorded: not worth waking a thread
  at::parallel_for(0, count, grain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) results[i] = sampler.sample(batch.chunks[i], i);
  });
  for (size_t i = 0; i < results.size(); ++i) {
    bool sampled = logits.chunks[i].count > 0 && !batch.chunks[i].sequence->search;
    commit_chunk(batch.chunks[i], results[i]);
    if (sampled) outputs.push_back(std::move(results[i]));
  }
  advance_searches(outputs);
  ++totals_.steps;
  return outputs;
}

void Replica::commit_chunk(const ScheduledChunk& chunk, const RequestOutput& output) {
  auto& sequence = *chunk.sequence;
  blocks_.cache_full_blocks(sequence.tokens, sequence.cache_key, sequence.blocks, sequence.published,
                            sequence.num_computed_tokens);
  sequence.published = sequence.num_computed_tokens / config_.block_size;
  if (sequence.search) return;
  auto added = static_cast<int64_t>(output.tokens.size());
  totals_.generated_tokens += added;
  totals_.num_draft_tokens += static_cast<int64_t>(sequence.draft_tokens.size());
  totals_.accepted_tokens += sequence.draft_tokens.empty() ? 0 : std::max<int64_t>(0, added - 1);
  if (added > 0 && sequence.generated() == added) {
    totals_.prompt_tokens += sequence.prompt_size;
    totals_.cached_tokens += sequence.num_cached_tokens.value_or(0);
  }
  if (output.finish == FinishReason::none) return;
  scheduler_.remove(sequence);
  sequences_.erase(sequence.id);
}

// Searches whose beams are all computed select the ones that continue.
void Replica::advance_searches(std::vector<RequestOutput>& outputs) {
  ForkCopies copies;
  for (auto it = searches_.begin(); it != searches_.end();) {
    auto& search = *it->second;
    if (!search.ready() || search.advance(scheduler_, next_beam_, copies)) {
      ++it;
      continue;
    }
    for (auto& completion : search.completions()) {
      completion.weights_version = totals_.weights_version;
      totals_.generated_tokens += static_cast<int64_t>(completion.tokens.size());
      outputs.push_back(std::move(completion));
    }
    totals_.prompt_tokens += static_cast<int64_t>(search.request().prompt.size());
    for (auto* sequence : search.sequences()) scheduler_.remove(*sequence);
    it = searches_.erase(it);
  }
  copy(copies);
}

void Replica::copy(const ForkCopies& copies) {
  std::vector<int64_t> from, to, from_slots, to_slots;
  for (auto [source, target] : copies.blocks) from.push_back(source), to.push_back(target);
  cache_->copy_blocks(from, to);
  for (auto [source, target] : copies.states) from_slots.push_back(source), to_slots.push_back(target);
  if (auto* states = cache_->states()) states->copy(from_slots, to_slots);
}

bool Replica::idle() const { return pending_outputs_.empty() && sequences_.empty() && searches_.empty(); }

Stats Replica::stats() const {
  auto stats = totals_;
  stats.running = scheduler_.running();
  stats.waiting = scheduler_.waiting();
  stats.blocks = blocks_.blocks();
  stats.blocks_used = stats.blocks - blocks_.free_blocks();
  stats.preemptions = scheduler_.preemptions();
  stats.asleep = !cache_;
  return stats;
}

void Replica::update_weights(int64_t version) {
  drop_step_in_flight();
  scheduler_.preempt_all();
  blocks_.reset_prefix_cache();
  totals_.weights_version = version;
}

void Replica::sleep() {
  drop_step_in_flight();
  scheduler_.preempt_all();
  blocks_.reset_prefix_cache();
  runner_.clear_graphs();
  cache_.reset();
  for (auto device : model::devices_of(model_.decoder())) device::empty_cache(device);
}

void Replica::wake() {
  if (!cache_) make_cache();
}

}  // namespace hone::engine
