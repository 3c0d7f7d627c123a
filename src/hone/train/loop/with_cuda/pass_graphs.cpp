#include "hone/train/loop/pass_graphs.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>

#include <bit>
#include <exception>
#include <map>

#include "hone/base/log.h"
#include "hone/device/memory.h"
#include "hone/model/decoder.h"
#include "hone/model/inference/tensor_parallel_decoder.h"
#include "hone/ops/loss/linear_cross_entropy.h"

namespace hone::train {
namespace {

constexpr double kLargestWork = 1.2e13;  // parameters times tokens: above this, the device is slower than the host's launches
constexpr int64_t kPlainPasses = 2;      // passes of a shape before its capture: libraries choose and allocate workspaces
constexpr size_t kMostGraphs = 8;

// The key of a captured pass: everything that its launches depend on. Boundaries and targets vary between batches of one shape,
// within limits.
struct PassShape {
  int64_t tokens, segments, longest, targets;
  bool weighted, even;
  auto operator<=>(const PassShape&) const = default;
};

int64_t next_power(int64_t value) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(value, 1))));
}

bool all_alike(const ops::CuSeqlens& segments) {
  for (int64_t i = 1; i < segments.count(); ++i)
    if (segments.length(i) != segments.length(0)) return false;
  return true;
}

PassShape shape_of(const data::Batch& batch) {
  const int64_t tokens = batch.tokens_t.size(0);
  // Sequences of equal length may use different launches (ops/attention/even_attention.h).
  if (all_alike(batch.segments))
    return {tokens,
            batch.segments.count(),
            batch.segments.longest(),
            ops::bound_of_targets(batch.target_count, tokens),
            batch.weights_t.defined(),
            true};
  return {tokens,
          next_power(batch.segments.count()),
          std::min(tokens, next_power(batch.segments.longest())),
          ops::bound_of_targets(batch.target_count, tokens),
          batch.weights_t.defined(),
          false};
}

// Segments of the largest length and count for the shape. Uneven shapes end in an empty segment, so that they never count as
// even.
ops::CuSeqlens widest_segments(const PassShape& shape) {
  ops::CuSeqlens segments;
  for (int64_t i = 0; i < shape.segments; ++i) segments.append(std::min(shape.longest, shape.tokens - segments.total()));
  if (!shape.even) segments.append(0);
  return segments;
}

// Whether a training pass makes the same launches for every batch of a shape.
bool repeats_launches(model::CausalLM& model) {
  auto& decoder = model.decoder();
  const auto& config = decoder.config;
  if (decoder.weight_hooks || decoder.distributed_attention || model::is_tensor_parallel(model) || decoder.region ||
      decoder.offloader || decoder.shifted_attention || decoder.observer || decoder.neftune_alpha > 0)
    return false;
  if (config.vision || config.audio || config.rope.kind == model::RopeKind::dynamic || config.experts.count > 0 ||
      config.linear_attention || model::devices_of(decoder).size() > 1)
    return false;
  auto repeats = [](const model::Linear* layer) {
    return layer->tuners.empty() && !layer->quantized_base && !layer->quantized && !layer->rounds_weight();
  };
  return std::ranges::all_of(decoder.blocks, [&](model::Block& block) {
    return std::ranges::all_of(block.module().linears(), repeats) &&
           (block.recompute == model::Recompute::none || !block.uses_random_numbers());
  });
}

}  // namespace

struct PassGraphs::Impl {
  struct Captured {
    at::cuda::CUDAGraph graph;
    data::Batch batch;  // at fixed addresses
    Tensor factor;
    LossSum loss;
    TensorList gradients;  // parallel to `trained`; undefined without a gradient
  };

  model::CausalLM& model;
  Loss& loss;
  TensorList trained;
  double parameters = 0;
  at::cuda::MempoolId_t pool = at::cuda::graph_pool_handle();
  std::map<PassShape, int64_t> seen;
  std::map<PassShape, std::unique_ptr<Captured>> captured;
  bool gave_up = false;

  std::unique_ptr<Captured> buffers(const PassShape& shape) const {
    auto made = std::make_unique<Captured>();
    auto longs = at::TensorOptions(at::kLong).device(model.device());
    made->batch.tokens_t = at::zeros({shape.tokens}, longs);
    made->batch.positions_t = at::zeros({shape.tokens}, longs);
    made->batch.targets_t = at::zeros({shape.tokens}, longs);
    if (shape.weighted) made->batch.weights_t = at::ones({shape.tokens}, longs.dtype(at::kFloat));
    made->batch.segments = widest_segments(shape);
    made->batch.offsets_s = at::zeros({made->batch.segments.count() + 1}, longs.dtype(at::kInt));
    made->batch.target_count = shape.targets;
    made->factor = at::ones({}, longs.dtype(at::kFloat));
    return made;
  }

  void fill(Captured& to, const data::Batch& batch, double factor) const {
    auto send = [](const Tensor& into, const Tensor& from) {
      if (into.defined()) into.copy_(from.pin_memory(), /*non_blocking=*/true);
    };
    send(to.batch.tokens_t, batch.tokens_t);
    send(to.batch.positions_t, batch.positions_t);
    send(to.batch.targets_t, batch.targets_t);
    send(to.batch.weights_t, batch.weights_t);
    auto offsets = at::full(to.batch.offsets_s.sizes(), batch.segments.total(), at::TensorOptions(at::kInt));
    std::ranges::copy(batch.segments.offsets, offsets.mutable_data_ptr<int32_t>());  // segments beyond the batch's are empty
    send(to.batch.offsets_s, offsets);
    to.factor.fill_(factor);
  }

  // Existing gradients are set aside and restored, also if the capture fails.
  void capture(Captured& made) {
    TensorList before;
    for (auto& tensor : trained) before.push_back(std::exchange(tensor.mutable_grad(), Tensor()));
    device::empty_cache(model.device());  // cached memory of plain passes would add to the graph's own
    auto stream = c10::cuda::getStreamFromPool(false, model.device().index());
    c10::cuda::getCurrentCUDAStream().synchronize();
    std::exception_ptr failure;
    {
      c10::cuda::CUDAStreamGuard guard(stream);
      made.graph.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
      try {
        made.loss = forward_loss(model, loss, made.batch);
        (made.loss.sum * made.factor).backward();
      } catch (...) {
        failure = std::current_exception();
      }
      try {
        made.graph.capture_end();
      } catch (...) {
        if (!failure) failure = std::current_exception();
      }
    }
    for (size_t i = 0; i < trained.size(); ++i) made.gradients.push_back(std::exchange(trained[i].mutable_grad(), before[i]));
    if (failure) std::rethrow_exception(failure);
    made.loss.sum = made.loss.sum.detach();
  }

  Captured* find(const data::Batch& batch) {
    const auto shape = shape_of(batch);
    if (gave_up || parameters * static_cast<double>(shape.tokens) > kLargestWork || !model.training()) return nullptr;
    if (auto found = captured.find(shape); found != captured.end()) return found->second.get();
    if (++seen[shape] <= kPlainPasses || captured.size() >= kMostGraphs || !repeats_launches(model)) return nullptr;
    auto made = buffers(shape);
    fill(*made, batch, 1);
    try {
      capture(*made);
    } catch (const std::exception& error) {
      log::warning("a training pass cannot be captured as a CUDA graph and is launched each time: {}", error.what());
      gave_up = true;
      return nullptr;
    }
    log::debug("captured a pass of {} tokens in at most {} sequences", shape.tokens, shape.segments);
    return (captured[shape] = std::move(made)).get();
  }

  void add_gradients(const Captured& from) {
    for (size_t i = 0; i < trained.size(); ++i) {
      if (!from.gradients[i].defined()) continue;
      auto& total = trained[i].mutable_grad();
      if (total.defined())
        total.add_(from.gradients[i]);
      else
        total = from.gradients[i];
    }
  }
};

PassGraphs::PassGraphs(model::CausalLM& model, Loss& loss, TensorList trained) {
  if (trained.empty() || !model.device().is_cuda() || !loss.repeats_launches()) return;
  impl_ = std::unique_ptr<Impl>(new Impl{model, loss, std::move(trained)});
  for (auto& parameter : model.parameters()) impl_->parameters += static_cast<double>(parameter.value->numel());
}
PassGraphs::~PassGraphs() = default;

std::optional<LossSum> PassGraphs::run(const data::Batch& batch, double factor) {
  if (!impl_) return std::nullopt;
  auto* found = impl_->find(batch);
  if (!found) return std::nullopt;
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < impl_->trained.size(); ++i)  // the next replay overwrites it
    if (auto& grad = impl_->trained[i].mutable_grad(); grad.defined() && grad.is_same(found->gradients[i])) grad = grad.clone();
  impl_->fill(*found, batch, factor);
  found->graph.replay();
  impl_->add_gradients(*found);
  LossSum replayed{found->loss.sum.clone(), {}};
  for (const auto& metric : found->loss.metrics)
    replayed.metrics.push_back({metric.name, metric.sum.clone(), impl_->loss.num_items(batch)});
  return replayed;
}

}  // namespace hone::train
