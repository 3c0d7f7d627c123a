#include <fmt/ranges.h>

#include <algorithm>

#include "hone/base/error.h"
#include "hone/tuner/methods/methods.h"

namespace hone::tuner {
namespace {

constexpr PeftMethod kMethods[] = {
    {.type = "ADALORA", .name = "adalora", .make = make_adalora, .complete = complete_adalora},
    {.type = "VERA", .name = "vera", .make = make_vera, .complete = complete_vera},
    {.type = "OFT", .name = "oft", .make = make_oft},
    {.type = "BOFT", .name = "boft", .make = make_boft, .follow_tensors = follow_butterfly_factors},
    {.type = "FOURIERFT", .name = "fourierft", .make = make_fourierft},
    {.type = "REFT", .name = "reft", .make = make_reft, .merges = false, .owner = owner_of_reft, .complete = complete_reft},
    {.type = "ADAPTER",
     .name = "adapter",
     .make = make_bottleneck,
     .merges = false,
     .owner = owner_of_bottleneck,
     .complete = complete_bottleneck},
};

}  // namespace

const PeftMethod& method_of_type(std::string_view type) {
  auto found = std::ranges::find(kMethods, type, &PeftMethod::type);
  if (found != std::end(kMethods)) return *found;
  std::vector<std::string_view> known{"LORA"};
  for (const auto& method : kMethods) known.push_back(method.type);
  throw UserError(ExitCode::bad_checkpoint, fmt::format("the adapter's \"peft_type\" is \"{}\"", type),
                  fmt::format("hone reads {}", fmt::join(known, ", ")));
}

const PeftMethod* method_called(std::string_view name) {
  auto found = std::ranges::find(kMethods, name, &PeftMethod::name);
  return found == std::end(kMethods) ? nullptr : found;
}

std::vector<std::string_view> method_names() {
  std::vector<std::string_view> names;
  for (const auto& method : kMethods) names.push_back(method.name);
  return names;
}

}  // namespace hone::tuner
