#include "hone/engine/decode_graphs.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>

#include <map>

#include "hone/ops/cuda/paged_attention.h"

namespace hone::engine {
namespace {

// 1, 2, 4, 8, then multiples of 16: a batch is filled up to the next of these.
int64_t bucket_of(int64_t sequences) {
  for (int64_t size : {1, 2, 4, 8})
    if (sequences <= size) return size;
  return (sequences + 15) / 16 * 16;
}

}  // namespace

struct DecodeGraphs::Impl {
  struct Captured {
    at::cuda::CUDAGraph graph;
    model::Input input;
    ops::PagedPlan plan;
    Tensor hidden_bh;
  };

  explicit Impl(model::CausalLM& model) : model(model), pool(at::cuda::graph_pool_handle()) {}

  model::CausalLM& model;
  at::cuda::MempoolId_t pool;
  std::map<int64_t, std::unique_ptr<Captured>> captured;

  // Buffers at addresses that stay; rows beyond the batch have length 0 and write nowhere.
  std::unique_ptr<Captured> buffers(int64_t size, int64_t table_size) const {
    auto made = std::make_unique<Captured>();
    auto options = at::TensorOptions(at::kInt).device(model.device());
    made->input.tokens_t = at::zeros({size}, options);
    made->input.positions_t = at::zeros({size}, options);
    for (int64_t i = 0; i < size; ++i) made->input.segments.append(1);
    auto& plan = made->plan;
    plan.segments = made->input.segments;
    plan.decodes = size;
    plan.lengths.assign(static_cast<size_t>(size), 0);
    plan.slots_t = at::full({size}, -1, options);
    plan.tables = at::zeros({table_size}, options);
    plan.table_begins_s = at::zeros({size}, options);
    plan.lengths_s = at::zeros({size}, options);
    return made;
  }

  void capture(Captured& made, model::PagedCache& cache) {
    cache.set_plan(made.plan);
    auto stream = c10::cuda::getStreamFromPool(false, model.device().index());
    c10::cuda::CUDAStreamGuard guard(stream);
    model.hidden(made.input, &cache);  // libraries allocate what they need before the capture
    stream.synchronize();
    made.graph.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    made.hidden_bh = model.hidden(made.input, &cache);
    made.graph.capture_end();
    stream.synchronize();
  }

  static void fill(Captured& to, const model::Input& input, const ops::PagedPlan& plan, int64_t size) {
    int64_t count = input.tokens_t.size(0);
    for (auto [into, from] : {std::pair(&to.input.tokens_t, &input.tokens_t), std::pair(&to.input.positions_t, &input.positions_t), std::pair(&to.plan.slots_t, &plan.slots_t),
                              std::pair(&to.plan.table_begins_s, &plan.table_begins_s), std::pair(&to.plan.lengths_s, &plan.lengths_s)})
      into->narrow(0, 0, count).copy_(*from, true);
    to.plan.tables.narrow(0, 0, plan.tables.size(0)).copy_(plan.tables, true);
    if (count == size) return;
    to.plan.slots_t.narrow(0, count, size - count).fill_(-1);
    to.plan.lengths_s.narrow(0, count, size - count).zero_();
  }
};

DecodeGraphs::DecodeGraphs(model::CausalLM& model, bool wanted) {
  const auto& config = model.config();
  bool fits = model.device().is_cuda() && config.rope.kind != model::RopeKind::dynamic;
  ops::AttentionShape shape{config.attention.heads, config.attention.kv_heads, config.attention.head_dim};
  if (wanted && fits && ops::cuda::serves_paged(at::empty({1}, at::TensorOptions(model.dtype()).device(model.device())), shape)) impl_ = std::make_unique<Impl>(model);
}
DecodeGraphs::~DecodeGraphs() = default;

Tensor DecodeGraphs::hidden(const model::Input& input, const ops::PagedPlan& plan, model::PagedCache& cache) {
  if (!impl_) return {};
  int64_t count = input.tokens_t.size(0), size = bucket_of(count);
  auto& made = impl_->captured[size];
  // A list of blocks that outgrew its buffer: a new one of twice the size, captured again.
  if (!made || plan.tables.size(0) > made->plan.tables.size(0)) {
    made = impl_->buffers(size, std::max<int64_t>(1024, 2 * plan.tables.size(0)));
    impl_->capture(*made, cache);
  }
  Impl::fill(*made, input, plan, size);
  made->graph.replay();
  return made->hidden_bh.narrow(0, 0, count);
}

void DecodeGraphs::clear() {
  if (impl_) impl_->captured.clear();
}

}  // namespace hone::engine
