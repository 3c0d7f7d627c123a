#include "hone/cli/configs/npu_config.h"

#include "hone/ops/npu/boxed.h"

namespace hone::cli {

void choose_npu_kernels(const Options& options) {
  auto& fusion = ops::npu::fusion();
  fusion.attention = options.text("attn_impl") != "eager";
  if (options.has_option("enable_npu_model_patch")) fusion.blocks = options.flag("enable_npu_model_patch");
}

}  // namespace hone::cli
