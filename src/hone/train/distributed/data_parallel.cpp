#include "hone/train/distributed/data_parallel.h"

#include <algorithm>
#include <array>

namespace hone::train {
namespace {

// Files and seeds are the same everywhere; this also covers differences in hardware rounding.
void share_from_first(const DataParallel::Copies& copies) {
  at::NoGradGuard no_grad;
  for (const auto& [working, target] : copies.parameters) {
    Tensor values = working.detach();
    copies.group->broadcast(values, 0);
    if (!target.is_same(working)) target.detach().copy_(values);
  }
}

}  // namespace

DataParallel::DataParallel(parallel::ProcessGroup& processes, std::vector<Copies> copies, int64_t bucket_bytes)
    : MultiProcess(processes) {
  for (auto& of : copies) {
    if (!of.group) continue;
    is_first_replica_ = is_first_replica_ && of.group->rank() == 0;
    if (of.parameters.empty()) continue;
    share_from_first(of);
    buckets_.push_back(std::make_unique<parallel::GradientBuckets>(*of.group, std::move(of.parameters), bucket_bytes));
  }
}

void DataParallel::before_micro_batch(bool last) {
  for (auto& buckets : buckets_)
    if (last) buckets->prepare_last_backward();
}

void DataParallel::finish_gradients() {
  for (auto& buckets : buckets_) buckets->finish();
}

Tensor ShardedDataParallel::clip_grad_norm(optim::Optimizer& optimizer, double max_norm) {
  return optimizer.clip_grad_norm(max_norm, [this](Tensor& squared_norm) { shards_.all_reduce(squared_norm)->wait(); });
}

std::vector<optim::ParameterGroup> shard_param_groups(const std::vector<optim::ParameterGroup>& groups,
                                                      const parallel::ShardedModel& model) {
  std::vector<optim::ParameterGroup> made;
  for (const auto& group : groups) {
    const optim::ParameterGroup empty{{}, {}, group.lr_scale, group.weight_decay};
    auto on_device = empty, on_host = empty;
    for (size_t i = 0; i < group.parameters.size(); ++i)
      for (const auto* piece : model.shards_of(group.parameters[i])) {
        auto& pieces = piece->values.is_cpu() ? on_host : on_device;
        pieces.names.push_back(fmt::format("{}@{}", group.names[i], piece->begin));
        pieces.parameters.push_back(piece->values);
      }
    for (auto* pieces : {&on_device, &on_host})
      if (!pieces->parameters.empty()) made.push_back(std::move(*pieces));
  }
  return made;
}

void require_elementwise(const std::string& optimizer) {
  static constexpr std::array kWhole = {"adafactor", "galore", "apollo", "badam", "adam_mini", "8bit"};
  if (std::none_of(kWhole.begin(), kWhole.end(), [&](const char* word) { return optimizer.find(word) != std::string::npos; }))
    return;
  throw UserError(
      ExitCode::usage, fmt::format("optimizer {} needs unsharded matrices, which sharding does not keep", optimizer),
      "use adamw_torch, muon, lion or sgd, or train data parallel: without `deepspeed`, `fsdp`, tensor and expert parallelism");
}

}  // namespace hone::train
