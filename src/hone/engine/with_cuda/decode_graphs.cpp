#include "hone/engine/decode_graphs.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <array>
#include <exception>
#include <map>

#include "hone/base/fault_injection.h"
#include "hone/base/log.h"
#include "hone/model/decoder.h"
#include "hone/ops/attention/decode_chunks.h"
#include "hone/ops/cuda/delta_net.h"
#include "hone/ops/cuda/paged_attention.h"
#include "hone/ops/moe/moe_permute.h"

namespace hone::engine {
namespace {

// libtorch's grouped product has a kernel for these devices; on others it copies the row counts to the host.
bool has_grouped_kernel(at::Device device) {
  int major = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device.index()));
  return major == 9 || major == 10;
}

// Unless experts and their adapters are grouped products, the host reads the row counts, which a captured step cannot wait for.
bool needs_no_counts(const model::Block& block) {
  if (!block.moe) return true;
  const auto& mixture = *block.moe;
  auto is_grouped = [](const model::ExpertWeights& experts) {
    const int64_t count = experts.weight.size(0);
    return experts.quantized.empty() && ops::supports_grouped_mm(experts.weight) && has_grouped_kernel(experts.weight.device()) &&
           std::ranges::all_of(experts.adapters, [&](const ops::LoraWeights& adapter) {
             return !adapter.active || adapter.a.size(0) / count % 8 == 0;  // their rank, as supports_grouped_mm requires it
           });
  };
  return !mixture.is_eager && is_grouped(mixture.gate_up) && is_grouped(mixture.down);
}

// One kernel leaves alone the slots of rows that pad a step.
bool steps_in_one_kernel(const model::Block& block, const model::CausalLM& model) {
  if (!block.delta_net) return true;
  const auto& net = *block.delta_net;
  const auto type = model.dtype();
  auto fits = [&](const Tensor& weight) {
    return weight.is_contiguous() && (weight.scalar_type() == type || weight.scalar_type() == at::kFloat);
  };
  return block.device() == model.device() && net.conv.weight.scalar_type() == type && fits(net.conv.weight) &&
         fits(net.dt_bias.weight) && fits(net.a_log.weight) && fits(net.norm.weight) &&
         ops::cuda::supports_delta_steps(net.conv.weight,
                                         {net.key_heads, net.value_heads, net.key_dim, net.value_dim, net.conv.weight.size(2)});
}

}  // namespace

struct DecodeGraphs::Impl {
  // One host buffer and one device buffer at fixed addresses: slots of recurrent states (int64) if the model has them, tokens,
  // positions, slots, offsets of block tables, lengths, the split of attention work, and the block tables themselves, so that a
  // step's input is one copy. Two host buffers alternate: a step may be prepared while the previous copy is still pending.
  struct Captured {
    at::cuda::CUDAGraph graph;
    std::array<Tensor, 2> hosts;
    size_t host_index = 0;
    Tensor device, state_slots_b;
    model::ForwardInput input;
    ops::PagedAttentionMetadata metadata;
    Tensor hidden_bh;
  };

  Impl(model::CausalLM& model, int64_t max_blocks) : model(model), max_blocks(max_blocks), pool(at::cuda::graph_pool_handle()) {}

  model::CausalLM& model;
  int64_t max_blocks;
  at::cuda::MempoolId_t pool;
  std::map<int64_t, std::unique_ptr<Captured>> captured;

  std::unique_ptr<Captured> buffers(int64_t size) const {
    auto made = std::make_unique<Captured>();
    auto options = at::TensorOptions(at::kInt);
    const int64_t chunks = ops::decode_chunk_room(size), first = first_column(size),
                  numbers = first + size * (5 + max_blocks) + chunks;
    for (auto& host : made->hosts) host = at::zeros({numbers}, options.pinned_memory(true));
    made->device = at::zeros({numbers}, options.device(model.device()));
    auto column = [&](int64_t i) { return made->device.narrow(0, first + i * size, size); };
    if (first > 0) made->state_slots_b = made->device.narrow(0, 0, first).view(at::kLong).fill_(-1);
    made->input.tokens_t = column(0);
    made->input.positions_t = column(1);
    for (int64_t i = 0; i < size; ++i) made->input.segments.append(1);
    made->metadata = {made->input.segments,
                      size,
                      std::vector<int64_t>(static_cast<size_t>(size)),
                      column(2),
                      made->device.narrow(0, first + 5 * size + chunks, size * max_blocks),
                      column(3),
                      column(4),
                      made->device.narrow(0, first + 5 * size, chunks)};
    column(2).fill_(-1);
    return made;
  }

  void capture(Captured& made, model::PagedKvCache& cache) {
    cache.bind_metadata(made.metadata, made.state_slots_b);
    auto stream = c10::cuda::getStreamFromPool(false, model.device().index());
    c10::cuda::getCurrentCUDAStream().synchronize();  // the buffers are ready
    c10::cuda::CUDAStreamGuard guard(stream);
    model.hidden_states(made.input, &cache);  // libraries allocate their workspaces before the capture
    stream.synchronize();
    made.graph.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    std::exception_ptr failure;
    try {
      fault("engine.capture");
      made.hidden_bh = model.hidden_states(made.input, &cache);
    } catch (...) {
      failure = std::current_exception();
    }
    try {
      made.graph.capture_end();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
    if (failure) std::rethrow_exception(failure);
    stream.synchronize();
  }

  // Where the tokens begin.
  int64_t first_column(int64_t size) const { return model.config().linear_attention ? 2 * size : 0; }

  // Padding rows have length 0 and write to no slot.
  void fill(Captured& to, const model::PagedInput& step, int64_t size) const {
    const auto& [input, metadata, states] = step;
    to.host_index = 1 - to.host_index;
    const auto& from_host = to.hosts[to.host_index];
    const int64_t first = first_column(size);
    if (first > 0) {
      auto* slots = static_cast<int64_t*>(from_host.mutable_data_ptr());
      std::fill(std::ranges::copy(states.slots, slots).out, slots + size, -1);
    }
    auto* host = from_host.mutable_data_ptr<int32_t>() + first;
    int64_t count = input.tokens_t.size(0);
    int column = 0;
    for (const auto& [from, rest] :
         {std::pair(&input.tokens_t, 0), std::pair(&input.positions_t, 0), std::pair(&metadata.slot_mapping_t, -1),
          std::pair(&metadata.table_begins_s, 0), std::pair(&metadata.lengths_s, 0)}) {
      auto* end = std::copy_n(from->const_data_ptr<int32_t>(), count, host + column++ * size);
      std::fill_n(end, size - count, rest);
    }
    std::ranges::copy(ops::decode_chunks(metadata.lengths, size), host + 5 * size);
    const int64_t tables = 5 * size + ops::decode_chunk_room(size), used = tables + metadata.block_tables.size(0);
    std::copy_n(metadata.block_tables.const_data_ptr<int32_t>(), metadata.block_tables.size(0), host + tables);
    to.device.narrow(0, 0, first + used).copy_(from_host.narrow(0, 0, first + used), /*non_blocking=*/true);
  }
};

DecodeGraphs::DecodeGraphs(model::CausalLM& model, const DecodeGraphsConfig& wanted) {
  const auto& config = model.config();
  const bool fits = model.device().is_cuda() && config.rope.kind != model::RopeKind::dynamic &&
                    std::ranges::all_of(model.decoder().blocks, [&](const model::Block& block) {
                      return needs_no_counts(block) && steps_in_one_kernel(block, model);
                    });
  ops::AttentionShape shape{config.attention.heads, config.attention.kv_heads, config.attention.head_dim};
  if (wanted.enabled && fits &&
      ops::cuda::supports_paged(model.embedding().weight, shape, wanted.kv_cache_dtype, wanted.block_size))
    impl_ = std::make_unique<Impl>(model, wanted.max_blocks);
}
DecodeGraphs::~DecodeGraphs() = default;

Tensor DecodeGraphs::hidden(const model::PagedInput& step, model::PagedKvCache& cache, const Tensor& tokens_t) {
  if (!impl_) return {};
  if (cache.states() && std::ranges::find(step.slots.starts, true) != step.slots.starts.end())
    return {};  // their slots are to be cleared
  int64_t count = step.input.tokens_t.size(0), size = decode_bucket(count);
  auto& made = impl_->captured[size];
  if (!made) {
    auto buffers = impl_->buffers(size);
    try {
      impl_->capture(*buffers, cache);
    } catch (const std::exception& error) {
      log::warning("a decode step cannot be captured as a CUDA graph and is launched each time: {}", error.what());
      impl_.reset();
      return {};
    }
    made = std::move(buffers);
    log::debug("captured a decode step of {} sequences", size);
  }
  impl_->fill(*made, step, size);
  if (tokens_t.defined()) made->input.tokens_t.narrow(0, 0, count).copy_(tokens_t);
  made->graph.replay();
  return made->hidden_bh.narrow(0, 0, count);
}

void DecodeGraphs::clear() {
  if (!impl_) return;
  impl_->captured.clear();
  impl_->pool = at::cuda::graph_pool_handle();  // the old pool was released with its last graph
}

}  // namespace hone::engine
