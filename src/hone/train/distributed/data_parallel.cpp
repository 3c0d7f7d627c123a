#include "hone/train/distributed/data_parallel.h"

#include <algorithm>
#include <array>

namespace hone::train {
namespace {

// Files and seeds are the same everywhere; this also covers what hardware rounds differently.
std::vector<parallel::GradientBuckets::Parameter> shared_from_main(parallel::ProcessGroup& processes,
                                                                   std::vector<parallel::GradientBuckets::Parameter> parameters) {
  at::NoGradGuard no_grad;
  for (auto& [working, target] : parameters) {
    Tensor values = working.detach();
    processes.broadcast(values, 0);
    if (!target.is_same(working)) target.detach().copy_(values);
  }
  return parameters;
}

}  // namespace

DataParallel::DataParallel(parallel::ProcessGroup& processes, std::vector<parallel::GradientBuckets::Parameter> parameters,
                           int64_t bucket_bytes)
    : MultiProcess(processes), buckets_(processes, shared_from_main(processes, std::move(parameters)), bucket_bytes) {}

Tensor ShardedDataParallel::clip_grad_norm(optim::Optimizer& optimizer, double max_norm) {
  return optimizer.clip_grad_norm(max_norm, [this](Tensor& squared_norm) { shards_.all_reduce(squared_norm)->wait(); });
}

std::vector<optim::ParameterGroup> shard_param_groups(const std::vector<optim::ParameterGroup>& groups,
                                                      const parallel::ShardedModel& model) {
  std::vector<optim::ParameterGroup> made;
  for (const auto& group : groups) {
    optim::ParameterGroup pieces{{}, {}, group.lr_scale, group.weight_decay};
    for (size_t i = 0; i < group.parameters.size(); ++i)
      for (const auto* piece : model.shards_of(group.parameters[i])) {
        pieces.names.push_back(fmt::format("{}@{}", group.names[i], piece->begin));
        pieces.parameters.push_back(piece->values);
      }
    if (!pieces.parameters.empty()) made.push_back(std::move(pieces));
  }
  return made;
}

void require_elementwise(const std::string& optimizer) {
  static constexpr std::array kWhole = {"adafactor", "muon", "galore", "apollo", "badam", "adam_mini", "8bit"};
  if (std::none_of(kWhole.begin(), kWhole.end(), [&](const char* word) { return optimizer.find(word) != std::string::npos; }))
    return;
  throw UserError(ExitCode::usage, fmt::format("optimizer {} needs unsharded matrices, which sharding does not keep", optimizer),
                  "use adamw_torch, lion or sgd, or train data parallel (leave out `deepspeed` and `fsdp`, or use zero0)");
}

}  // namespace hone::train
