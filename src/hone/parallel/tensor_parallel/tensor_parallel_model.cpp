#include "hone/parallel/tensor_parallel/tensor_parallel_model.h"

#include <map>

#include "hone/base/error.h"
#include "hone/base/fault_injection.h"
#include "hone/model/decoder.h"

namespace hone::parallel {
namespace {

const void* identity_of(const Tensor& tensor) { return tensor.unsafeGetTensorImpl(); }

void check_cuttable(model::CausalLM& model) {
  auto refuse = [](const std::string& what, const char* fix) {
    throw UserError(ExitCode::usage, what + ", which tensor parallel training does not support", fix);
  };
  const auto& config = model.config();
  if (config.vision || config.audio)
    refuse(fmt::format("{} reads images or sound", config.architecture), "shard it with `deepspeed` zero3");
  if (config.num_labels || model.value_head()) refuse("the model scores whole texts", "shard it with `deepspeed` zero3");
  for (const auto* layer : model.tree().linears()) {
    if (layer->quantized_base || layer->quantized || layer->float8)
      refuse(layer->name + " is quantized", "leave out the tensor parallelism, or the bits");
    if (!layer->tuners.empty()) refuse(layer->name + " has an adapter that is not LoRA", "use `tuner_type` lora or full");
  }
  for (const auto& slot : model.tree().slots())
    for (const auto& adapter : *slot.adapters)
      if (adapter.magnitude.defined()) refuse(slot.path + " has a DoRA adapter", "use LoRA without `use_dora`");
}

// Memory of its own size for one value stands for all of them.
Tensor shape_only(const std::vector<int64_t>& shape, const Tensor& like) {
  return at::empty(std::vector<int64_t>(shape.size(), 1), like.options().requires_grad(false)).expand(shape);
}

void announce(ProcessGroup& group, int64_t place) {
  auto number = at::tensor({place}, at::kLong);
  group.broadcast(number, 0);
}

}  // namespace

TensorParallelModel::TensorParallelModel(model::CausalLM& model, ProcessGroup& group, const TensorParallelOptions& options)
    : model_(model), group_(group), sequence_parallel_(options.sequence_parallel) {
  auto& decoder = model.decoder();
  const int64_t rank = group.rank(), count = group.size(), kv_heads = decoder.config.attention.kv_heads;
  model::check_partition(decoder, count);
  check_cuttable(model);
  if (kv_heads < count) {
    const int alike = static_cast<int>(count / kv_heads), first = group.rank() / alike * alike;
    std::vector<int> ranks;
    for (int i = 0; i < alike; ++i) ranks.push_back(first + i);
    replicas_ = group.subgroup(fmt::format("{}-heads-{}", options.name, first), ranks);
  }
  at::NoGradGuard no_grad;
  const int64_t words = decoder.embedding.weight.size(0);
  for (const auto& tensor : model::partitioned_tensors(decoder)) cut(tensor, options.device);
  for (auto& block : decoder.blocks) {
    block.shape.heads /= count;
    block.shape.kv_heads = std::max<int64_t>(block.shape.kv_heads / count, 1);
  }
  const ProcessRegion::Words here{rank * words / count, decoder.embedding.weight.size(0), words, (words + count - 1) / count};
  region_ = std::make_unique<ProcessRegion>(group, sequence_parallel_, here);
  decoder.region = region_.get();
}

TensorParallelModel::~TensorParallelModel() { model_.decoder().region = nullptr; }

void TensorParallelModel::cut(const model::PartitionedTensor& tensor, at::Device device) {
  auto& value = *tensor.value;
  const auto& partition = tensor.partition;
  const int64_t alike = partition.replicas(group_.size());
  Part part{value, partition.slice(value.sizes(), group_.rank(), group_.size()), partition, group_.rank() % alike == 0};
  value.set_data(part.slice.cut(value.detach()).to(device));
  if (partition.first_rank_only && group_.rank() > 0) value = Tensor();  // known here, not computed with
  places_[identity_of(part.value)] = parts_.size();
  parts_.push_back(std::move(part));
}

size_t TensorParallelModel::place_of(const Tensor& parameter) const {
  auto found = places_.find(identity_of(parameter));
  HONE_CHECK(found != places_.end(), "a tensor that is none of the model's");
  return found->second;
}

bool TensorParallelModel::is_partial(const Part& part) const {
  const auto& partition = part.partition;
  if (partition.gradient == model::PartialGradient::never) return false;
  if (partition.gradient == model::PartialGradient::with_sequence_parallel && !sequence_parallel_) return false;
  return partition.replicas(group_.size()) > 1;
}

void TensorParallelModel::sum_partial(const std::vector<Gradient>& gradients) {
  TensorList everywhere, among_replicas;
  for (const auto& [parameter, value] : gradients) {
    const auto& part = parts_[place_of(parameter)];
    if (!value.defined() || !is_partial(part) || fault(fmt::format("tensor_parallel.{}", part.partition.what))) continue;
    (part.partition.dimension < 0 ? everywhere : among_replicas).push_back(value);
  }
  sum_over(group_, everywhere);
  if (replicas_) sum_over(*replicas_, among_replicas);
}

// One message for each type of number.
void TensorParallelModel::sum_over(ProcessGroup& group, const TensorList& gradients) {
  at::NoGradGuard no_grad;
  std::map<at::ScalarType, TensorList> by_type;
  for (const auto& gradient : gradients) by_type[gradient.scalar_type()].push_back(gradient);
  for (auto& [type, list] : by_type) {
    TensorList flat;
    for (const auto& gradient : list) flat.push_back(gradient.reshape({-1}));
    auto all = at::cat(flat);
    group.all_reduce(all)->wait();
    int64_t begin = 0;
    for (auto& gradient : list) {
      gradient.copy_(all.narrow(0, begin, gradient.numel()).view(gradient.sizes()));
      begin += gradient.numel();
    }
  }
}

Tensor TensorParallelModel::squared_norm(const std::vector<Gradient>& gradients) {
  at::NoGradGuard no_grad;
  auto total = at::zeros({}, model_.decoder().norm.weight.options().dtype(at::kFloat).requires_grad(false));
  TensorList own;
  for (const auto& [parameter, value] : gradients)
    if (value.defined() && owns(parameter)) own.push_back(value);
  if (!own.empty()) total = at::stack(at::_foreach_norm(own, 2, at::kFloat)).square().sum().to(total.device());
  group_.all_reduce(total)->wait();
  return total;
}

// Exact, whatever the sizes of the parts.
Tensor TensorParallelModel::gathered_part(size_t place) {
  at::NoGradGuard no_grad;
  const auto& part = parts_[place];
  const auto here = part.here();
  if (part.slice.is_whole()) return here.clone();
  auto whole = at::empty(part.slice.whole, here.options());
  const int64_t alike = part.partition.replicas(group_.size());
  for (int rank = 0; rank < group_.size(); rank += static_cast<int>(alike)) {
    const auto slice = part.partition.slice(part.slice.whole, rank, group_.size());
    auto values = rank == group_.rank() ? here.contiguous() : at::empty(slice.shape, here.options());
    group_.broadcast(values, rank);
    slice.paste(whole, values);
  }
  return whole;
}

void TensorParallelModel::fill(const Tensor& parameter, const Tensor& whole) const {
  at::NoGradGuard no_grad;
  const auto& part = parts_[place_of(parameter)];
  auto here = part.here();
  here.copy_(part.slice.cut(whole));
}

std::unique_ptr<TensorParallelModel> apply_tensor_parallel(model::CausalLM& model, ProcessGroup& group,
                                                           const TensorParallelOptions& options) {
  return std::make_unique<TensorParallelModel>(model, group, options);
}

WholeShapes::WholeShapes(TensorParallelModel& model) : model_(model) {
  for (auto& part : model_.parts_) {
    if (part.slice.is_whole()) continue;
    part.kept = part.value.detach();
    part.value.set_data(shape_only(part.slice.whole, part.kept));
  }
}

WholeShapes::~WholeShapes() {
  for (auto& part : model_.parts_)
    if (part.kept.defined()) part.value.set_data(std::exchange(part.kept, Tensor()));
}

void WholeShapes::show(Tensor parameter) {
  auto& part = model_.parts_[model_.place_of(parameter)];
  if (!part.slice.is_whole()) parameter.set_data(model_.gathered_part(model_.place_of(parameter)));
}

Tensor WholeParameters::operator()(const Tensor& parameter) {
  const auto place = model_.place_of(parameter);
  if (!model_.parts_[place].slice.is_whole()) announce(model_.group_, static_cast<int64_t>(place));
  return model_.gathered_part(place).to(at::kCPU);
}

WholeParameters::~WholeParameters() {
  try {
    announce(model_.group_, -1);
  } catch (const UserError&) {
    return;  // the peers are gone: the next collective reports it
  }
}

void WholeParameters::follow(TensorParallelModel& model) {
  for (auto number = at::empty({1}, at::kLong);;) {
    model.group_.broadcast(number, 0);
    const auto place = number.item<int64_t>();
    if (place < 0) return;
    model.gathered_part(static_cast<size_t>(place));
  }
}

}  // namespace hone::parallel
