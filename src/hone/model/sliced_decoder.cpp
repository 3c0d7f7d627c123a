#include "hone/model/sliced_decoder.h"

#include <numeric>

namespace hone::model {
namespace {

// A layer's outputs are cut where the next one reads them slice by slice, its inputs where it reads what was cut.
enum class Cut { outputs, inputs };

struct SlicePlace {
  int64_t index, count;
  at::Device device;

  // The last slice may be shorter: a vocabulary need not divide.
  Tensor part(const Tensor& whole, int64_t dimension) const {
    if (!whole.defined()) return {};
    int64_t size = whole.size(dimension), step = (size + count - 1) / count, begin = std::min(size, index * step);
    return whole.narrow(dimension, begin, std::min(step, size - begin)).to(device).contiguous();
  }
  Tensor all(const Tensor& whole) const { return whole.defined() ? whole.to(device) : whole; }
};

std::vector<ops::LoraWeights> sliced_adapters(const std::vector<ops::LoraWeights>& whole, const SlicePlace& place, Cut cut) {
  auto list = whole;
  for (auto& adapter : list) {
    if (adapter.magnitude.defined())
      throw UserError(ExitCode::usage, "DoRA needs the whole weight, and this model is cut into slices", "merge the adapter into the model (--merge_lora true)");
    adapter.a = cut == Cut::inputs ? place.part(adapter.a, 1) : place.all(adapter.a);
    adapter.b = cut == Cut::outputs ? place.part(adapter.b, 0) : place.all(adapter.b);
  }
  return list;
}

void check_plain(const Linear& whole) {
  if (whole.compressed || whole.quantized)
    throw UserError(ExitCode::usage, fmt::format("{} is kept in few bits, and such weights are not cut into slices", whole.name),
                    "leave out the tensor parallelism, or the bits");
  if (!whole.tuners.empty())
    throw UserError(ExitCode::usage, fmt::format("{} carries an adapter that is not LoRA, and this model is cut into slices", whole.name),
                    "merge the adapter into the model (--merge_lora true)");
}

Linear sliced_linear(const Linear& whole, const SlicePlace& place, Cut cut) {
  check_plain(whole);
  Linear slice{whole.name, place.part(whole.weight, cut == Cut::outputs ? 0 : 1), {}, sliced_adapters(whole.adapters, place, cut)};
  if (cut == Cut::outputs) slice.bias = place.part(whole.bias, 0);
  else if (place.index == 0) slice.bias = place.all(whole.bias);  // once in the sum
  return slice;
}

Norm norm_on(const Norm& whole, const SlicePlace& place) { return {whole.name, place.all(whole.weight), whole.eps}; }

Block sliced_block(const Block& whole, const SlicePlace& place, int64_t layers) {
  Block slice;
  slice.layer = place.index * layers + whole.layer;
  slice.shape = whole.shape;
  slice.shape.heads /= place.count, slice.shape.kv_heads /= place.count;
  slice.input_norm = norm_on(whole.input_norm, place);
  slice.attention_norm = norm_on(whole.attention_norm, place);
  const auto& a = whole.attention;
  slice.attention.q = sliced_linear(a.q, place, Cut::outputs);
  slice.attention.k = sliced_linear(a.k, place, Cut::outputs);
  slice.attention.v = sliced_linear(a.v, place, Cut::outputs);
  slice.attention.o = sliced_linear(a.o, place, Cut::inputs);
  if (a.q_norm) slice.attention.q_norm = norm_on(*a.q_norm, place), slice.attention.k_norm = norm_on(*a.k_norm, place);
  slice.mlp = Mlp{sliced_linear(whole.mlp->gate, place, Cut::outputs), sliced_linear(whole.mlp->up, place, Cut::outputs),
                  sliced_linear(whole.mlp->down, place, Cut::inputs), {}};
  return slice;
}

Embedding embedding_on(const Embedding& whole, const SlicePlace& place) {
  Embedding copy{whole.name, place.all(whole.weight), whole.adapters};
  for (auto& adapter : copy.adapters) adapter.a = place.all(adapter.a), adapter.b = place.all(adapter.b);
  return copy;
}

Decoder slice_of(const Decoder& whole, const SlicePlace& place) {
  Decoder slice{.config = whole.config};
  slice.embedding = embedding_on(whole.embedding, place);
  for (const auto& block : whole.blocks) slice.blocks.push_back(sliced_block(block, place, whole.config.layers));
  slice.norm = norm_on(whole.norm, place);
  slice.head = sliced_linear(whole.head, place, Cut::outputs);
  return slice;
}

std::string numbers_that_divide(std::initializer_list<int64_t> sizes) {
  int64_t common = 0;
  for (auto size : sizes) common = std::gcd(common, size);
  std::string list;
  for (int64_t i = 1; i <= common; ++i)
    if (common % i == 0) list += fmt::format("{}{}", list.empty() ? "" : ", ", i);
  return list;
}

}  // namespace

void SlicedDecoder::check(const DecoderConfig& config, size_t slices) {
  const auto& a = config.attention;
  auto divides = [&](int64_t size) { return size % static_cast<int64_t>(slices) == 0; };
  for (int64_t layer = 0; layer < config.layers; ++layer)
    if (config.has_experts(layer))
      throw UserError(ExitCode::usage, fmt::format("{} slices of {}: experts are not cut", slices, config.architecture),
                      "use copies or stages instead (--vllm_data_parallel_size, --vllm_pipeline_parallel_size)");
  if (divides(a.heads) && divides(a.kv_heads) && divides(config.intermediate)) return;
  throw UserError(ExitCode::usage,
                  fmt::format("{} slices of {} heads, {} key heads and an MLP of {}", slices, a.heads, a.kv_heads, config.intermediate),
                  "numbers that divide all of them: " + numbers_that_divide({a.heads, a.kv_heads, config.intermediate}));
}

std::vector<SlicedDecoder::Followed> SlicedDecoder::adapters_of(const Decoder& whole) {
  std::vector<Followed> list;
  auto add = [&](const std::vector<ops::LoraWeights>& adapters) {
    for (const auto& adapter : adapters) list.push_back({adapter.a, adapter.active});
    list.push_back({{}, false});
  };
  add(whole.embedding.adapters), add(whole.head.adapters);
  for (const auto& block : whole.blocks)
    for (const auto* layer : {&block.attention.q, &block.attention.k, &block.attention.v, &block.attention.o, &block.mlp->gate, &block.mlp->up, &block.mlp->down})
      add(layer->adapters);
  return list;
}

SlicedDecoder::SlicedDecoder(const Decoder& whole, const std::vector<at::Device>& devices) : team_(devices), followed_(adapters_of(whole)) {
  check(whole.config, devices.size());
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < devices.size(); ++i)
    slices_.push_back(slice_of(whole, {static_cast<int64_t>(i), static_cast<int64_t>(devices.size()), devices[i]}));
}

std::vector<at::Device> SlicedDecoder::block_devices() const {
  std::vector<at::Device> devices;
  for (const auto& slice : slices_)
    for (const auto& block : slice.blocks) devices.push_back(block.device());
  return devices;
}

void SlicedDecoder::follow(const Decoder& whole) {
  std::lock_guard lock(following_);
  auto present = adapters_of(whole);
  if (present == followed_) return;
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < slices_.size(); ++i) {
    auto& slice = slices_[i];
    const SlicePlace place{static_cast<int64_t>(i), static_cast<int64_t>(slices_.size()), slice.norm.weight.device()};
    auto take = [&](Linear& to, const Linear& from, Cut cut) { to.adapters = sliced_adapters(from.adapters, place, cut); };
    slice.embedding.adapters = embedding_on(whole.embedding, place).adapters;
    take(slice.head, whole.head, Cut::outputs);
    for (size_t j = 0; j < slice.blocks.size(); ++j) {
      auto &to = slice.blocks[j].attention;
      const auto& from = whole.blocks[j].attention;
      take(to.q, from.q, Cut::outputs), take(to.k, from.k, Cut::outputs), take(to.v, from.v, Cut::outputs), take(to.o, from.o, Cut::inputs);
      auto& mlp = *slice.blocks[j].mlp;
      const auto& whole_mlp = *whole.blocks[j].mlp;
      take(mlp.gate, whole_mlp.gate, Cut::outputs), take(mlp.up, whole_mlp.up, Cut::outputs), take(mlp.down, whole_mlp.down, Cut::inputs);
    }
  }
  followed_ = std::move(present);
}

Tensor SlicedDecoder::hidden(const Tensor& tokens_t, const ops::AdapterRows& rows, const std::function<std::shared_ptr<Pass>(at::Device)>& pass_on) {
  Tensor first;
  team_.run([&](size_t i) {
    const auto& decoder = slices_[i];
    const auto device = decoder.norm.weight.device();
    auto pass = pass_on(device);
    pass->sums = &team_.sums(i);
    auto x_th = decoder.embedding(tokens_t.to(device), rows);
    for (const auto& block : decoder.blocks) x_th = block_forward(block, x_th, *pass);
    x_th = decoder.norm(x_th);
    if (i == 0) first = x_th;
  });
  return first;
}

Tensor SlicedDecoder::logits(const Tensor& hidden_th, const LinearMode& mode) {
  TensorList parts(slices_.size());
  team_.run([&](size_t i) { parts[i] = slices_[i].head(hidden_th.to(slices_[i].norm.weight.device()), mode); });
  for (auto& part : parts) part = part.to(hidden_th.device());
  return at::cat(parts, 1);
}

}  // namespace hone::model
