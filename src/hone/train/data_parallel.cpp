#include "hone/train/data_parallel.h"

namespace hone::train {
namespace {

// Gradients of one dtype in one flat buffer on their way to the sum and back.
struct Bucket {
  TensorList gradients;
  Tensor flat;
  std::unique_ptr<parallel::Pending> pending;
};

Bucket start(TensorList gradients, parallel::ProcessGroup& processes) {
  TensorList flattened;
  for (const auto& gradient : gradients) flattened.push_back(gradient.reshape({-1}));
  Bucket bucket{std::move(gradients), at::cat(flattened), nullptr};
  bucket.pending = processes.all_reduce(bucket.flat);
  return bucket;
}

void finish(Bucket& bucket) {
  bucket.pending->wait();
  int64_t offset = 0;
  for (auto& gradient : bucket.gradients) {
    gradient.copy_(bucket.flat.narrow(0, offset, gradient.numel()).view(gradient.sizes()));
    offset += gradient.numel();
  }
}

}  // namespace

double DataParallelGroup::sum(double value) {
  auto total = at::tensor(value, at::kDouble);
  sum_(total);
  return total.item<double>();
}

void DataParallelGroup::sum_(Tensor& values) { processes_.all_reduce(values)->wait(); }

void DataParallelGroup::finish_gradients(optim::Optimizer& optimizer) {
  at::NoGradGuard no_grad;
  std::vector<Bucket> travelling;
  TensorList filling;
  int64_t filled = 0;
  auto flush = [&] {
    if (!filling.empty()) travelling.push_back(start(std::exchange(filling, {}), processes_));
    filled = 0;
  };
  for (const auto& group : optimizer.groups()) {
    for (Tensor parameter : group.parameters) {
      if (!parameter.grad().defined()) parameter.mutable_grad() = at::zeros_like(parameter);
      if (!filling.empty() && filling[0].scalar_type() != parameter.grad().scalar_type()) flush();
      filling.push_back(parameter.grad());
      filled += static_cast<int64_t>(parameter.grad().nbytes());
      if (filled >= bucket_bytes_) flush();
    }
  }
  flush();
  for (auto& bucket : travelling) finish(bucket);
}

void DataParallelGroup::share_from_main(const std::vector<optim::ParameterGroup>& groups) {
  at::NoGradGuard no_grad;
  for (const auto& group : groups)
    for (const auto& parameter : group.parameters) {
      Tensor values = parameter.detach();
      processes_.broadcast(values, 0);
    }
}

}  // namespace hone::train
