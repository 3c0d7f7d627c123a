#include "hone/engine/model_runner.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <cmath>

#include "hone/base/fault_injection.h"
#include "hone/engine/row_selection.h"
#include "hone/ops/linear/matmul.h"
#include "hone/ops/sample_tokens.h"

namespace hone::engine {
namespace {

constexpr size_t kPromptRows = 64;  // rows of logits processed at a time for prompt log-probabilities

// Sampling state of the token that is `ahead` of the sequence's next one, for sampling on the device.
void append_draw(ops::SamplingTensors& draws, const Sequence& sequence, size_t ahead) {
  const auto& sampling = sequence.request.sampling;
  draws.temperatures.push_back(static_cast<float>(sampling.temperature));
  draws.top_k.push_back(static_cast<int32_t>(std::min<int64_t>(sampling.top_k, std::numeric_limits<int32_t>::max())));
  draws.top_p.push_back(static_cast<float>(sampling.top_p));
  draws.keys.push_back(static_cast<int64_t>(sequence.sampler.draw_key(ahead)));
}

Tensor on_device(const std::vector<int32_t>& values, at::Device device) {
  return at::tensor(values, at::TensorOptions(at::kInt)).to(device);
}

Tensor host_floats(const Tensor& logits) { return logits.to(at::kFloat).to(at::kCPU).contiguous(); }

}  // namespace

// A decoding sequence's rows each continue from the cache: the last sampled token and every draft token after it. On a GPU the
// last few rows of a prompt with a cached prefix do too: many such prompts then share one launch. Recurrent states advance row by
// row, so a sequence is one chunk there.
model::PagedInput ModelRunner::prepare_inputs(Chunks chunks, model::PagedKvCache& cache) {
  std::vector<model::PagedChunk> paged;
  for (const auto& chunk : chunks) {
    const auto& [sequence, count] = chunk;
    const bool by_row = chunk.is_decode() || (model_.device().is_cuda() && chunk.is_short_continuation() && !cache.states());
    const int64_t step = by_row ? 1 : count, end = sequence->num_computed_tokens + count;
    for (int64_t past = sequence->num_computed_tokens; past < end; past += step) {
      const bool drafted = past >= sequence->size();
      const auto* from = drafted ? &sequence->draft_tokens[static_cast<size_t>(past - sequence->size())]
                                 : &sequence->tokens[static_cast<size_t>(past)];
      paged.push_back({{from, static_cast<size_t>(step)}, past, sequence->blocks, sequence->request.adapter});
      paged.back().slot = sequence->state_slot;
      if (sequence->request.images) encoder_cache_.fill(*sequence, paged.back());
    }
  }
  return model::paged_input(paged, cache.block_size());
}

// CPU GEMM results depend on the number of rows above kBatchInvariantRows.
// Batch-invariant requests therefore run in groups of a fixed size, regardless of the batch: decodes in passes of a few rows,
// each prompt alone.
std::vector<ModelRunner::Chunks> ModelRunner::split_batch_invariant(const StepBatch& batch) const {
  Chunks all(batch.chunks);
  if (std::ranges::none_of(all, &ScheduledChunk::is_batch_invariant)) return {all};
  std::vector<Chunks> result;
  size_t begin = 0;
  auto split_before = [&](size_t end) {
    if (begin < end) result.push_back(all.subspan(begin, end - begin));
    begin = end;
  };
  int64_t rows = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    bool full = all[i].is_decode() && rows + all[i].count > ops::kBatchInvariantRows,
         prompt = !all[i].is_decode() && (all[i].is_batch_invariant() || rows > 0);
    if (full || prompt) split_before(i), rows = 0;
    if (all[i].is_decode() || all[i].is_batch_invariant()) rows += all[i].count;
  }
  split_before(all.size());
  return result;
}

StepLogits ModelRunner::compute(const StepBatch& batch, model::PagedKvCache& cache) {
  StepLogits result{.vocabulary = model_.config().vocab_size};
  for (auto chunks : split_batch_invariant(batch)) {
    auto logits = run_forward(chunks, cache);
    result.chunks.insert(result.chunks.end(), logits.chunks.begin(), logits.chunks.end());
    result.on_host.insert(result.on_host.end(), logits.on_host.begin(), logits.on_host.end());
  }
  return result;
}

StepLogits ModelRunner::run_forward(Chunks chunks, model::PagedKvCache& cache) {
  fault("engine.compute");
  auto step = prepare_inputs(chunks, cache);
  auto& [input, metadata, slots] = step;
  bool all_continue = std::ranges::all_of(chunks, &ScheduledChunk::is_decode);
  StepStates states{all_continue && input.adapters.empty() ? graphs_.hidden(step, cache) : Tensor(), {}};
  if (!states.hidden_rh.defined()) {
    const auto slots_t = metadata.slot_mapping_t;
    cache.set_metadata(ops::moved(std::move(metadata), model_.device()), slots);
    if (!routed_) states.rows = rows_read(chunks);  // else the last layer, too, routes all rows
    if (!states.rows.empty()) input.output_rows_r = on_device(padded_rows(states.rows, model_.device()), at::kCPU);
    TensorList router_logits;
    states.hidden_rh = model_.hidden_states(input.to(model_.device()), &cache, routed_ ? &router_logits : nullptr);
    if (routed_) routed_->store(router_logits, slots_t);
  }
  fault("engine.select");
  return compute_logits(chunks, states, input.adapters);
}

bool ModelRunner::can_run_ahead(const StepBatch& batch) const {
  return graphs_.available() && !batch.empty() && std::ranges::all_of(batch.chunks, [&](const ScheduledChunk& chunk) {
           const auto& sequence = *chunk.sequence;
           return chunk.count == 1 && sequence.is_decoding() && !sequence.search && sequence.request.adapter.empty() &&
                  samples_on_device(sequence, model_.embedding().weight);
         });
}

DecodesInFlight ModelRunner::launch(std::span<Sequence* const> sequences, model::PagedKvCache& cache,
                                    const DecodesInFlight* previous) {
  fault("engine.compute");
  const auto device = model_.device();
  const int64_t ahead = previous ? 1 : 0;
  DecodesInFlight step{.done = c10::Event(device.type())};
  std::vector<model::PagedChunk> chunks;
  std::vector<int64_t> sources;  // each row's index in the previous step
  ops::SamplingTensors draws;
  size_t row = 0;
  for (const auto* sequence : sequences) {
    chunks.push_back({{&sequence->tokens.back(), 1}, sequence->num_computed_tokens + ahead, sequence->blocks, {}});
    chunks.back().slot = sequence->state_slot;
    if (sequence->request.images) encoder_cache_.fill(*sequence, chunks.back());
    append_draw(draws, *sequence, static_cast<size_t>(ahead));
    step.rows.push_back(sequence->id);
    while (previous && previous->rows[row] != sequence->id) ++row;
    sources.push_back(static_cast<int64_t>(row++));
  }
  Tensor tokens_t;
  if (previous) {
    tokens_t = previous->sampled_r;
    if (sources.size() != previous->rows.size())
      tokens_t = tokens_t.index_select(0, at::tensor(sources).pin_memory().to(device, true));
  }
  auto input = model::paged_input(chunks, cache.block_size());
  auto hidden_bh = graphs_.hidden(input, cache, tokens_t);
  if (!hidden_bh.defined()) hidden_bh = launched_hidden(std::move(input), cache, tokens_t);
  fault("engine.select");
  step.sampled_r = ops::sample_tokens(model_.logits(hidden_bh, {}), draws);
  step.on_host_r = at::empty(step.sampled_r.sizes(), at::TensorOptions(at::kLong).pinned_memory(true));
  step.on_host_r.copy_(step.sampled_r, /*non_blocking=*/true);
  step.done.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return step;
}

// The hidden states of a step that is not a captured graph.
Tensor ModelRunner::launched_hidden(model::PagedInput step, model::PagedKvCache& cache, const Tensor& tokens_t) {
  cache.set_metadata(ops::moved(std::move(step.metadata), model_.device()), step.slots);
  auto input = step.input.to(model_.device());
  if (tokens_t.defined()) input.tokens_t = tokens_t.to(input.tokens_t.scalar_type());
  return model_.hidden_states(input, &cache);
}

Tensor ModelRunner::StepStates::at(const std::vector<int32_t>& wanted) const {
  if (rows.empty() && static_cast<int64_t>(wanted.size()) == hidden_rh.size(0)) return hidden_rh;
  if (rows.empty()) return hidden_rh.index_select(0, on_device(wanted, hidden_rh.device()));
  if (wanted == rows) return hidden_rh.narrow(0, 0, static_cast<int64_t>(rows.size()));
  std::vector<int32_t> indices;
  for (auto row : wanted) indices.push_back(static_cast<int32_t>(std::ranges::lower_bound(rows, row) - rows.begin()));
  return hidden_rh.index_select(0, on_device(indices, hidden_rh.device()));
}

StepLogits ModelRunner::compute_logits(Chunks chunks, const StepStates& states, const ops::LoraMapping& adapters) {
  StepLogits result{.chunks = std::vector<ChunkLogits>(chunks.size()), .vocabulary = model_.config().vocab_size};
  fill_prompt_logprobs(chunks, states, adapters);
  std::vector<int32_t> wanted;
  int64_t begin = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    const auto& chunk = chunks[i];
    result.chunks[i].count = sampled_rows(chunk);
    for (int64_t row = chunk.count - result.chunks[i].count; row < chunk.count; ++row)
      wanted.push_back(static_cast<int32_t>(begin + row));
    begin += chunk.count;
  }
  if (wanted.empty()) return result;
  const auto hidden_rh = wanted == states.rows ? states.hidden_rh : states.at(wanted);  // the former with padding
  auto logits_rv = model_.logits(hidden_rh, ranges_of_rows(adapters, wanted)).narrow(0, 0, static_cast<int64_t>(wanted.size()));
  sample_on_device(chunks, logits_rv, result);
  return result;
}

bool ModelRunner::samples_on_device(const Sequence& sequence, const Tensor& like) {
  const auto& sampler = sequence.sampler;
  const bool settings = sampler.needs_only_temperature() || (sampler.needs_only_top_k_top_p() && ops::can_filter_on(like));
  return !like.is_cpu() && settings && ops::can_sample_on_device(like, sequence.request.sampling.temperature);
}

// On an accelerator, rows that need only temperature and seed, on some also top_k and top_p, are sampled on the device.
void ModelRunner::sample_on_device(Chunks chunks, const Tensor& logits_rv, StepLogits& result) {
  std::vector<int32_t> simple, other, first;  // `first`: those of `simple` that start a response
  ops::SamplingTensors draws;
  int32_t row = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    const auto& sequence = *chunks[i].sequence;
    bool on_device = result.chunks[i].count == 1 && samples_on_device(sequence, logits_rv);
    for (int64_t j = 0; j < result.chunks[i].count; ++j) (on_device ? simple : other).push_back(row++);
    if (!on_device) continue;
    if (sequence.generated() == 0) first.push_back(row - 1);
    append_draw(draws, sequence, 0);
  }
  auto rows_of = [&](const std::vector<int32_t>& rows) {
    return static_cast<int64_t>(rows.size()) == logits_rv.size(0)
               ? logits_rv
               : logits_rv.index_select(0, on_device(rows, logits_rv.device()));
  };
  Tensor sampled = simple.empty() ? Tensor() : ops::sample_tokens(rows_of(simple), draws);
  Tensor sums = first.empty() ? Tensor() : rows_of(first).sum(1, /*keepdim=*/false, at::kFloat).to(at::kCPU);
  if (!other.empty()) result.on_host = {host_floats(rows_of(other))};
  const auto* tokens = sampled.defined() ? (sampled = sampled.to(at::kCPU)).const_data_ptr<int64_t>() : nullptr;
  auto* next = result.on_host.empty() ? nullptr : result.on_host[0].data_ptr<float>();
  size_t taken = 0, checked = 0;
  row = 0;
  for (auto& chunk : result.chunks) {
    if (chunk.count == 0) continue;
    if (taken < simple.size() && simple[taken] == row) {
      chunk.sampled = static_cast<text::TokenId>(tokens[taken++]);
      if (checked < first.size() && first[checked] == row) chunk.has_nan = std::isnan(sums.const_data_ptr<float>()[checked++]);
    } else {
      chunk.rows = next;
      next += chunk.count * result.vocabulary;
    }
    row += static_cast<int32_t>(chunk.count);
  }
}

// The rows of all chunks together, a few at a time: a row is as long as the vocabulary.
void ModelRunner::fill_prompt_logprobs(Chunks chunks, const StepStates& states, const ops::LoraMapping& adapters) {
  struct PromptRow {
    Sequence* sequence;
    size_t next;  // the token whose log-probability is returned for the row
  };
  std::vector<PromptRow> wanted;
  std::vector<int32_t> rows;
  int64_t begin = 0;
  for (const auto& chunk : chunks) {
    auto& sequence = *chunk.sequence;
    const auto [first, last] = prompt_targets(chunk);
    for (int64_t next = first; next < last; ++next) {
      wanted.push_back({&sequence, static_cast<size_t>(next)});
      rows.push_back(static_cast<int32_t>(begin + next - 1 - sequence.num_computed_tokens));
    }
    begin += chunk.count;
  }
  for (size_t done = 0; done < rows.size(); done += kPromptRows) {
    auto count = std::min<size_t>(kPromptRows, rows.size() - done);
    std::vector<int32_t> batch(rows.begin() + static_cast<long>(done), rows.begin() + static_cast<long>(done + count));
    auto logits_rv = host_floats(model_.logits(states.at(batch), ranges_of_rows(adapters, batch)));
    std::vector<PositionLogprobs> made(count);
    at::parallel_for(0, static_cast<int64_t>(count), 1, [&](int64_t from, int64_t to) {
      for (auto i = static_cast<size_t>(from); i < static_cast<size_t>(to); ++i) {
        const auto& [sequence, next] = wanted[done + i];
        auto vocabulary = static_cast<size_t>(logits_rv.size(1));
        made[i] = position_logprobs({logits_rv.const_data_ptr<float>() + i * vocabulary, vocabulary}, sequence->tokens[next],
                                    *sequence->request.sampling.prompt_logprobs);
      }
    });
    for (size_t i = 0; i < count; ++i) wanted[done + i].sequence->prompt_logprobs.push_back(std::move(made[i]));
  }
}

}  // namespace hone::engine
