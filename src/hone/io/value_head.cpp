#include "hone/io/value_head.h"

namespace hone::io {

ValueHead read_value_head(const fs::path& folder, int64_t hidden) {
  const SafetensorsFile file(folder / kValueHeadFile);
  ValueHead head{file.tensor(fmt::format("{}.weight", kValueHead)), file.tensor(fmt::format("{}.bias", kValueHead))};
  if (head.weight.dim() != 2 || head.weight.size(0) != 1 || head.weight.size(1) != hidden || head.bias.numel() != 1 ||
      !head.weight.is_floating_point())
    throw UserError(ExitCode::bad_checkpoint,
                    fmt::format("{}: its head is not one of {} inputs", (folder / kValueHeadFile).string(), hidden),
                    "the value head belongs to another model; give the model it was trained with");
  return head;
}

}  // namespace hone::io
