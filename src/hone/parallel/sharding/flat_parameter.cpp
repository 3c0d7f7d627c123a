#include "hone/parallel/sharding/flat_parameter.h"

#include <algorithm>

#include "hone/base/error.h"

namespace hone::parallel {
namespace {

constexpr int64_t kAlignment = 64;  // elements: alignment of members for vector instructions

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

Tensor on_host(const Tensor& tensor, bool pinned) {
  auto host = tensor.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
  return pinned ? host.pin_memory() : host;
}

}  // namespace

FlatParameter::FlatParameter(TensorList members, ProcessGroup& shards, ProcessGroup* replicas, const FlatParameterConfig& config)
    : config_(config), shards_(shards), replicas_(replicas), members_(std::move(members)) {
  at::NoGradGuard no_grad;
  for (const auto& member : members_) {
    offsets_.push_back(length_);
    length_ += round_up(member.numel(), kAlignment);
  }
  length_ = round_up(length_, kAlignment * shards_.size());
  part_ = length_ / shards_.size();
  auto options = at::TensorOptions(config_.device).dtype(config_.type);
  unsharded_ = at::empty({config_.keep_unsharded ? length_ : 0}, options);
  if (config_.keep_unsharded) {
    unsharded_.zero_();
    shard_ = unsharded_.narrow(0, shards_.rank() * part_, part_);
  } else {
    unsharded_.unsafeGetTensorImpl()->set_sizes_contiguous({length_});  // memory is allocated by the first gather
    shard_ = at::zeros({part_}, config_.offload_parameters ? options.device(at::kCPU) : options);
    if (config_.offload_parameters && !config_.device.is_cpu()) shard_ = shard_.pin_memory();
  }
  for (size_t i = 0; i < members_.size(); ++i) {
    fill(i, members_[i].detach());
    bool trains = members_[i].requires_grad();
    members_[i].set_data(view_of(i));
    members_[i].requires_grad_(trains);
  }
  optimizer_shard_ = config_.offload_optimizer && !shard_.is_cpu() ? on_host(shard_, /*pinned=*/true) : shard_;
  if (config_.trained) make_shards();
}

Tensor FlatParameter::view_of(size_t member) const {
  auto sizes = members_[member].sizes();
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t d = sizes.size(); d-- > 0;) strides[d] = step, step *= sizes[d];
  // Built by hand: an operator would access memory that is not allocated yet.
  auto impl =
      unsharded_.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), /*allow_tensor_metadata_change=*/true);
  impl->set_sizes_and_strides(sizes, strides, offsets_[member]);
  return Tensor(std::move(impl));
}

std::pair<int64_t, int64_t> FlatParameter::elements_of(size_t member, int rank) const {
  const int64_t begin = rank * part_ - offsets_[member], size = members_[member].numel();
  return {std::clamp<int64_t>(begin, 0, size), std::clamp<int64_t>(begin + part_, 0, size)};
}

void FlatParameter::make_shards() {
  const int64_t begin = shards_.rank() * part_;
  for (size_t i = 0; i < members_.size(); ++i)
    if (const auto [from, to] = elements_of(i, shards_.rank()); from < to)
      parameter_shards_.push_back(
          {i, from, optimizer_shard_.narrow(0, offsets_[i] + from - begin, to - from).detach().requires_grad_(true)});
}

void FlatParameter::fill(size_t member, const Tensor& values) {
  at::NoGradGuard no_grad;
  if (gathering_) finish_gather();  // or received data would be added on top
  auto flat = values.reshape({-1});
  if (config_.keep_unsharded) unsharded_.narrow(0, offsets_[member], flat.numel()).copy_(flat);
  int64_t begin = shards_.rank() * part_, from = std::max(begin, offsets_[member]),
          to = std::min(begin + part_, offsets_[member] + flat.numel());
  if (from >= to) return;
  auto part = flat.narrow(0, from - offsets_[member], to - from);
  if (!config_.keep_unsharded) shard_.narrow(0, from - begin, to - from).copy_(part);
  if (optimizer_shard_.defined() && !optimizer_shard_.is_same(shard_))
    optimizer_shard_.narrow(0, from - begin, to - from).copy_(part);
}

void FlatParameter::reload_shard() {
  at::NoGradGuard no_grad;
  if (!config_.keep_unsharded && gathered_) shard_.copy_(unsharded_.narrow(0, shards_.rank() * part_, part_));
  if (!optimizer_shard_.is_same(shard_)) optimizer_shard_.copy_(shard_);
}

void FlatParameter::allocate() {
  auto* storage = unsharded_.storage().unsafeGetStorageImpl();
  size_t bytes = static_cast<size_t>(length_) * unsharded_.element_size();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes));
  storage->set_nbytes(bytes);
}

void FlatParameter::start_gather() {
  if (gathered() || gathering_) return;
  at::NoGradGuard no_grad;
  allocate();
  auto own = shard_.to(config_.device, /*non_blocking=*/true);
  // A separate tensor object: the members' version counters must not change, or autograd would assume modified values.
  auto target = unsharded_.variable_data();
  gathering_ = shards_.all_gather(target, own);
}

void FlatParameter::finish_gather() {
  start_gather();
  if (!gathering_) return;
  gathering_->wait();
  gathering_.reset();
  gathered_ = true;
}

void FlatParameter::release() {
  if (config_.keep_unsharded) return;
  if (gathering_) finish_gather();
  if (!gathered_) return;
  auto* storage = unsharded_.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(0));
  storage->set_nbytes(0);
  gathered_ = false;
}

bool FlatParameter::requires_grad_now() const {
  return config_.trained &&
         std::any_of(members_.begin(), members_.end(), [](const Tensor& member) { return member.requires_grad(); });
}

void FlatParameter::start_reduce() {
  at::NoGradGuard no_grad;
  finish_reduce();
  auto options = at::TensorOptions(config_.device).dtype(config_.reduce_type);
  sending_ = at::empty({length_}, options);
  for (size_t i = 0; i < members_.size(); ++i) {
    int64_t room = (i + 1 < members_.size() ? offsets_[i + 1] : length_) - offsets_[i], used = members_[i].numel();
    Tensor& gradient = members_[i].mutable_grad();
    if (gradient.defined())
      sending_.narrow(0, offsets_[i], used).copy_(gradient.reshape({-1}));
    else
      used = 0;
    if (used < room) sending_.narrow(0, offsets_[i] + used, room - used).zero_();
    gradient.reset();
  }
  // A sum reuses the previous buffer unless it is still in use: short-lived shards would fragment memory.
  if (!gradient_.defined()) gradient_ = at::empty({part_}, options);
  received_ = gradient_.storage().use_count() == 1 ? gradient_ : at::empty({part_}, options);
  reducing_ = shards_.reduce_scatter(received_, sending_);
}

void FlatParameter::finish_reduce() {
  if (!reducing_) return;
  at::NoGradGuard no_grad;
  reducing_->wait();
  reducing_.reset();
  sending_.reset();
  if (replicas_) replicas_->all_reduce(received_)->wait();
  auto sum = received_.to(optimizer_shard_.device(), config_.gradient_type);
  received_.reset();
  int64_t begin = shards_.rank() * part_;
  for (auto& piece : parameter_shards_) {
    auto part = sum.narrow(0, offsets_[piece.member] + piece.begin - begin, piece.values.numel());
    Tensor& total = piece.values.mutable_grad();
    if (total.defined())
      total.add_(part);
    else
      total = part;
  }
}

void FlatParameter::sync_after_step() {
  at::NoGradGuard no_grad;
  if (!optimizer_shard_.is_same(shard_)) shard_.copy_(optimizer_shard_, /*non_blocking=*/true);
  if (!config_.keep_unsharded) return;
  auto target = unsharded_.variable_data();
  gathering_ = shards_.all_gather(target, shard_);
}

}  // namespace hone::parallel
