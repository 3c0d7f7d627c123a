#include "hone/engine/model_runner.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <cmath>

#include "hone/base/fault_injection.h"
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

// The ranges of `rows` restricted to the selected rows.
ops::LoraMapping chosen_ranges(const ops::LoraMapping& rows, const std::vector<int32_t>& chosen) {
  ops::LoraMapping result;
  for (const auto& range : rows) {
    auto first = std::ranges::lower_bound(chosen, range.begin) - chosen.begin(),
         last = std::ranges::lower_bound(chosen, range.end) - chosen.begin();
    if (first < last) result.push_back({range.adapter, first, last});
  }
  return result;
}

// The rows of a chunk that give log-probabilities of its prompt: the tokens that they predict, [first, last).
std::pair<int64_t, int64_t> prompt_targets(const ScheduledChunk& chunk) {
  const auto& sequence = *chunk.sequence;
  if (!sequence.wants_prompt_logprobs()) return {0, 0};
  return {std::max(sequence.num_computed_tokens + 1, sequence.request.sampling.prompt_logprobs_start),
          std::min(sequence.num_computed_tokens + chunk.count + 1, sequence.prompt_size)};
}

// How many rows at the end of a chunk tokens are sampled from.
int64_t sampled_rows(const ScheduledChunk& chunk) {
  return chunk.samples_token() ? 1 + static_cast<int64_t>(chunk.sequence->draft_tokens.size()) : 0;
}

// The rows whose hidden states are read. Empty where that is most of them, or where results may not depend on their number.
std::vector<int32_t> rows_read(std::span<const ScheduledChunk> chunks) {
  std::vector<int32_t> rows;
  int64_t begin = 0;
  for (const auto& chunk : chunks) {
    if (chunk.is_batch_invariant()) return {};
    const int64_t sampled = begin + chunk.count - sampled_rows(chunk), past = chunk.sequence->num_computed_tokens;
    const auto [first, last] = prompt_targets(chunk);
    for (int64_t next = first; next < last && begin + next - 1 - past < sampled; ++next)
      rows.push_back(static_cast<int32_t>(begin + next - 1 - past));
    for (int64_t row = sampled; row < begin + chunk.count; ++row) rows.push_back(static_cast<int32_t>(row));
    begin += chunk.count;
  }
  return static_cast<int64_t>(rows.size()) * 2 > begin ? std::vector<int32_t>() : rows;
}

// On a GPU the last row is repeated up to a batch size of decodes, since libraries load a kernel for milliseconds when a number
// of rows needs another one.
std::vector<int32_t> padded_rows(std::vector<int32_t> rows, at::Device device) {
  if (device.is_cuda()) rows.resize(static_cast<size_t>(decode_bucket(static_cast<int64_t>(rows.size()))), rows.back());
  return rows;
}

Tensor host_floats(const Tensor& logits) { return logits.to(at::kFloat).to(at::kCPU).contiguous(); }

}  // namespace

// A decoding sequence's rows each continue from the cache: the last sampled token and every draft token after it. On a GPU the
// last few rows of a prompt with a cached prefix do too: many such prompts then share one launch. Recurrent states advance row by
// row, so a sequence is one chunk there.
model::PagedInput ModelRunner::prepare_inputs(Chunks slices, model::PagedKvCache& cache) {
  std::vector<model::PagedChunk> chunks;
  for (const auto& slice : slices) {
    const auto& [sequence, count] = slice;
    const bool by_row = slice.is_decode() || (model_.device().is_cuda() && slice.is_short_continuation() && !cache.states());
    const int64_t step = by_row ? 1 : count, end = sequence->num_computed_tokens + count;
    for (int64_t past = sequence->num_computed_tokens; past < end; past += step) {
      const bool drafted = past >= sequence->size();
      const auto* from = drafted ? &sequence->draft_tokens[static_cast<size_t>(past - sequence->size())]
                                 : &sequence->tokens[static_cast<size_t>(past)];
      chunks.push_back({{from, static_cast<size_t>(step)}, past, sequence->blocks, sequence->request.adapter});
      chunks.back().slot = sequence->state_slot;
      if (sequence->request.images) encoder_cache_.fill(*sequence, chunks.back());
    }
  }
  return model::paged_input(chunks, cache.block_size());
}

// CPU GEMM results depend on the number of rows above kBatchInvariantRows.
// Batch-invariant requests therefore run in groups of a fixed size, whatever the batch: decodes in passes of a few rows, each
// prompt by itself.
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
  for (auto slices : split_batch_invariant(batch)) {
    auto pass = run_forward(slices, cache);
    result.chunks.insert(result.chunks.end(), pass.chunks.begin(), pass.chunks.end());
    result.on_host.insert(result.on_host.end(), pass.on_host.begin(), pass.on_host.end());
  }
  return result;
}

StepLogits ModelRunner::run_forward(Chunks slices, model::PagedKvCache& cache) {
  fault("engine.compute");
  auto step = prepare_inputs(slices, cache);
  auto& [input, plan, slots] = step;
  bool all_continue = std::ranges::all_of(slices, &ScheduledChunk::is_decode);
  StepStates states{all_continue && input.adapters.empty() ? graphs_.hidden(step, cache) : Tensor(), {}};
  if (!states.hidden_rh.defined()) {
    const auto slots_t = plan.slot_mapping_t;
    cache.set_metadata(ops::moved(std::move(plan), model_.device()), slots);
    if (!routed_) states.rows = rows_read(slices);  // else the last layer, too, routes all rows
    if (!states.rows.empty()) input.output_rows_r = on_device(padded_rows(states.rows, model_.device()), at::kCPU);
    TensorList router_logits;
    states.hidden_rh = model_.hidden_states(input.to(model_.device()), &cache, routed_ ? &router_logits : nullptr);
    if (routed_) routed_->store(router_logits, slots_t);
  }
  fault("engine.select");
  return compute_logits(slices, states, input.adapters);
}

bool ModelRunner::can_run_ahead(const StepBatch& batch) const {
  return graphs_.available() && !batch.empty() && std::ranges::all_of(batch.chunks, [&](const ScheduledChunk& chunk) {
           const auto& sequence = *chunk.sequence;
           return chunk.count == 1 && sequence.is_decoding() && !sequence.search && sequence.request.adapter.empty() &&
                  samples_on_device(sequence, model_.embedding().weight);
         });
}

DecodesInFlight ModelRunner::launch(std::span<Sequence* const> sequences, model::PagedKvCache& cache,
                                    const DecodesInFlight* before) {
  fault("engine.compute");
  const auto device = model_.device();
  const int64_t ahead = before ? 1 : 0;
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
    while (before && before->rows[row] != sequence->id) ++row;
    sources.push_back(static_cast<int64_t>(row++));
  }
  Tensor tokens_t;
  if (before) {
    tokens_t = before->chosen_r;
    if (sources.size() != before->rows.size())
      tokens_t = tokens_t.index_select(0, at::tensor(sources).pin_memory().to(device, true));
  }
  auto hidden_bh = graphs_.hidden(model::paged_input(chunks, cache.block_size()), cache, tokens_t);
  fault("engine.select");
  step.chosen_r = ops::sample_tokens(model_.logits(hidden_bh, {}), draws);
  step.on_host_r = at::empty(step.chosen_r.sizes(), at::TensorOptions(at::kLong).pinned_memory(true));
  step.on_host_r.copy_(step.chosen_r, /*non_blocking=*/true);
  step.done.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return step;
}

Tensor ModelRunner::StepStates::at(const std::vector<int32_t>& wanted) const {
  if (rows.empty() && static_cast<int64_t>(wanted.size()) == hidden_rh.size(0)) return hidden_rh;
  if (rows.empty()) return hidden_rh.index_select(0, on_device(wanted, hidden_rh.device()));
  if (wanted == rows) return hidden_rh.narrow(0, 0, static_cast<int64_t>(rows.size()));
  std::vector<int32_t> places;
  for (auto row : wanted) places.push_back(static_cast<int32_t>(std::ranges::lower_bound(rows, row) - rows.begin()));
  return hidden_rh.index_select(0, on_device(places, hidden_rh.device()));
}

StepLogits ModelRunner::compute_logits(Chunks slices, const StepStates& states, const ops::LoraMapping& rows) {
  StepLogits result{.chunks = std::vector<ChunkLogits>(slices.size()), .vocabulary = model_.config().vocab_size};
  fill_prompt_logprobs(slices, states, rows);
  std::vector<int32_t> wanted;
  int64_t begin = 0;
  for (size_t i = 0; i < slices.size(); ++i) {
    const auto& slice = slices[i];
    result.chunks[i].count = sampled_rows(slice);
    for (int64_t row = slice.count - result.chunks[i].count; row < slice.count; ++row)
      wanted.push_back(static_cast<int32_t>(begin + row));
    begin += slice.count;
  }
  if (wanted.empty()) return result;
  const auto hidden_rh = wanted == states.rows ? states.hidden_rh : states.at(wanted);  // the former with padding
  auto logits_rv = model_.logits(hidden_rh, chosen_ranges(rows, wanted)).narrow(0, 0, static_cast<int64_t>(wanted.size()));
  choose_on_device(slices, logits_rv, result);
  return result;
}

bool ModelRunner::samples_on_device(const Sequence& sequence, const Tensor& like) {
  const auto& sampler = sequence.sampler;
  const bool settings = sampler.needs_only_temperature() || (sampler.needs_only_top_k_top_p() && ops::can_filter_on(like));
  return !like.is_cpu() && settings && ops::can_sample_on_device(like, sequence.request.sampling.temperature);
}

// On an accelerator, rows that need only temperature and seed, on some also top_k and top_p, are sampled on the device.
void ModelRunner::choose_on_device(Chunks slices, const Tensor& logits_rv, StepLogits& result) {
  std::vector<int32_t> simple, other, first;  // `first`: those of `simple` that start a response
  ops::SamplingTensors draws;
  int32_t row = 0;
  for (size_t i = 0; i < slices.size(); ++i) {
    const auto& sequence = *slices[i].sequence;
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
  Tensor chosen = simple.empty() ? Tensor() : ops::sample_tokens(rows_of(simple), draws);
  Tensor sums = first.empty() ? Tensor() : rows_of(first).sum(1, /*keepdim=*/false, at::kFloat).to(at::kCPU);
  if (!other.empty()) result.on_host = {host_floats(rows_of(other))};
  const auto* choices = chosen.defined() ? (chosen = chosen.to(at::kCPU)).const_data_ptr<int64_t>() : nullptr;
  auto* next = result.on_host.empty() ? nullptr : result.on_host[0].data_ptr<float>();
  size_t place = 0, beginning = 0;
  row = 0;
  for (auto& slice : result.chunks) {
    if (slice.count == 0) continue;
    if (place < simple.size() && simple[place] == row) {
      slice.chosen = static_cast<text::TokenId>(choices[place++]);
      if (beginning < first.size() && first[beginning] == row)
        slice.has_nan = std::isnan(sums.const_data_ptr<float>()[beginning++]);
    } else {
      slice.rows = next;
      next += slice.count * result.vocabulary;
    }
    row += static_cast<int32_t>(slice.count);
  }
}

// The rows of all slices together, a few at a time: a row is as long as the vocabulary.
void ModelRunner::fill_prompt_logprobs(Chunks slices, const StepStates& states, const ops::LoraMapping& adapters) {
  struct PromptRow {
    Sequence* sequence;
    size_t next;  // the token whose log-probability is returned for the row
  };
  std::vector<PromptRow> wanted;
  std::vector<int32_t> rows;
  int64_t begin = 0;
  for (const auto& slice : slices) {
    auto& sequence = *slice.sequence;
    const auto [first, last] = prompt_targets(slice);
    for (int64_t next = first; next < last; ++next) {
      wanted.push_back({&sequence, static_cast<size_t>(next)});
      rows.push_back(static_cast<int32_t>(begin + next - 1 - sequence.num_computed_tokens));
    }
    begin += slice.count;
  }
  for (size_t done = 0; done < rows.size(); done += kPromptRows) {
    auto count = std::min<size_t>(kPromptRows, rows.size() - done);
    std::vector<int32_t> part(rows.begin() + static_cast<long>(done), rows.begin() + static_cast<long>(done + count));
    auto logits_rv = host_floats(model_.logits(states.at(part), chosen_ranges(adapters, part)));
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
