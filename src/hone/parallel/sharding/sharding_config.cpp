#include "hone/parallel/sharding/sharding_config.h"

#include "hone/base/error.h"

namespace hone::parallel {

std::string ShardingConfig::str() const {
  static constexpr const char* kStages[] = {"data parallel", "optimizer sharded (ZeRO-1)",
                                            "optimizer and gradients sharded (ZeRO-2)",
                                            "parameters, gradients and optimizer sharded (ZeRO-3)"};
  std::string text = kStages[stage];
  if (stage == 3 && !reshard_after_forward) text += ", weights kept between the passes";
  if (shard_size > 0) text += fmt::format(", each copy over {} ranks", shard_size);
  if (offload_parameters) text += ", parameters in host memory";
  if (offload_optimizer) text += ", optimizer in host memory";
  return text;
}

}  // namespace hone::parallel
