#include "hone/parallel/sharding/gradient_buckets.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "hone/base/error.h"

namespace hone::parallel {
namespace {

constexpr int64_t kFirstBucketBytes = 1 << 20;

}  // namespace

class GradientBuckets::Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(GradientBuckets& buckets, size_t parameter) : buckets_(buckets), parameter_(parameter) {}
  void operator()(const Tensor&) override {
    if (buckets_.armed_) buckets_.ready(parameter_);
  }

 private:
  GradientBuckets& buckets_;
  size_t parameter_;
};

GradientBuckets::GradientBuckets(ProcessGroup& group, std::vector<Parameter> parameters, int64_t bucket_bytes)
    : group_(group), parameters_(std::move(parameters)), slots_(parameters_.size()) {
  int64_t filled = 0, limit = std::min(kFirstBucketBytes, bucket_bytes);
  for (size_t i = parameters_.size(); i-- > 0;) {  // the last layer's gradients come first
    const auto& [working, target] = parameters_[i];
    bool other_type =
        !buckets_.empty() && parameters_[buckets_.back().members[0]].main_param.scalar_type() != target.scalar_type();
    if (buckets_.empty() || filled >= limit || other_type) {
      if (!buckets_.empty()) limit = bucket_bytes;
      buckets_.emplace_back();
      filled = 0;
    }
    auto& bucket = buckets_.back();
    slots_[i] = {buckets_.size() - 1, bucket.length};
    bucket.members.push_back(i);
    bucket.length += target.numel();
    filled += static_cast<int64_t>(target.nbytes());
    torch::autograd::impl::set_post_acc_grad_hooks(working, std::make_unique<Hook>(*this, i));
  }
}

GradientBuckets::~GradientBuckets() {
  for (auto& parameter : parameters_) torch::autograd::impl::set_post_acc_grad_hooks(parameter.model_param, nullptr);
}

void GradientBuckets::prepare_last_backward() {
  for (auto& slot : slots_) slot.ready = slot.used = false;
  for (auto& bucket : buckets_) bucket.missing = bucket.members.size();
  next_ = 0;
  armed_ = true;
}

void GradientBuckets::ready(size_t parameter) {
  at::NoGradGuard no_grad;
  auto& slot = slots_[parameter];
  if (std::exchange(slot.ready, true)) return;
  put(parameter);
  --buckets_[slot.bucket].missing;
  send_complete();
}

// Moves a gradient into its bucket; afterwards the gradient is a view of the bucket, so that the sum needs no copy back.
void GradientBuckets::put(size_t parameter) {
  auto& [working, target] = parameters_[parameter];
  auto& bucket = buckets_[slots_[parameter].bucket];
  auto marks = static_cast<int64_t>(bucket.members.size());
  if (!bucket.flat.defined()) bucket.flat = at::empty({bucket.length + marks}, target.options().requires_grad(false));
  auto place = bucket.flat.narrow(0, slots_[parameter].offset, target.numel()).view(target.sizes());
  Tensor& known = target.mutable_grad();
  slots_[parameter].used = known.defined() || working.grad().defined();
  if (known.defined())
    place.copy_(known);
  else
    place.zero_();
  if (!working.is_same(target) && working.grad().defined()) {
    place.add_(working.grad());
    working.mutable_grad().reset();
  }
  known = place;
}

void GradientBuckets::send_complete() {
  for (; next_ < buckets_.size() && buckets_[next_].missing == 0; ++next_) {
    auto& bucket = buckets_[next_];
    std::vector<float> marks;
    for (size_t member : bucket.members) marks.push_back(slots_[member].used ? 1.0f : 0.0f);
    bucket.flat.narrow(0, bucket.length, static_cast<int64_t>(marks.size())).copy_(at::tensor(marks));
    bucket.pending = group_.all_reduce(bucket.flat);
  }
}

// A parameter unused on all ranks has no gradient, as with one process: a zero would still apply decay and momentum.
void GradientBuckets::drop_unused(Bucket& bucket) {
  auto unused_here = [this](size_t member) { return !slots_[member].used; };
  if (std::none_of(bucket.members.begin(), bucket.members.end(), unused_here)) return;
  auto marks = bucket.flat.narrow(0, bucket.length, static_cast<int64_t>(bucket.members.size())).to(at::kCPU, at::kFloat);
  for (size_t i = 0; i < bucket.members.size(); ++i)
    if (marks.const_data_ptr<float>()[i] == 0) parameters_[bucket.members[i]].main_param.mutable_grad().reset();
}

void GradientBuckets::finish() {
  HONE_CHECK(armed_, "gradients are finished once, after the last backward pass of an update");
  for (size_t i = parameters_.size(); i-- > 0;)
    if (!slots_[i].ready) ready(i);
  armed_ = false;
  for (auto& bucket : buckets_) {
    bucket.pending->wait();
    bucket.pending.reset();
    drop_unused(bucket);
    bucket.flat.reset();
  }
}

}  // namespace hone::parallel
