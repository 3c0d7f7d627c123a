#include "hone/cli/configs/npu_config.h"

#include "hone/cli/arguments/model.h"
#include "hone/ops/npu/boxed.h"

namespace hone::cli {

void choose_npu_kernels(const Options& options) {
  const ModelArguments args(options);
  auto& fusion = ops::npu::fusion();
  fusion.attention = *args.attn_impl != "eager";
  if (args.enable_npu_model_patch.exists()) fusion.blocks = *args.enable_npu_model_patch;
}

}  // namespace hone::cli
