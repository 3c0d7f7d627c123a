#include "hone/cli/configs/training/ray_config.h"

#include <filesystem>

#include "hone/cli/arguments/distributed.h"
#include "hone/cli/arguments/output.h"
#include "hone/cli/configs/training/parallel_config.h"
#include "hone/parallel/launch/world.h"

namespace hone::cli {
namespace {

std::string object_text(const Arg<Json>& arg, bool of_numbers, std::string_view example) {
  const auto value = *arg;
  bool right = value.is_object();
  if (right && of_numbers)
    for (const auto& [name, amount] : value.items()) right &= amount.is_number();
  if (!right)
    throw UserError(ExitCode::usage, fmt::format("{} is {}", arg.flag(), value.dump()), fmt::format("expected {}", example));
  return value.dump();
}

}  // namespace

std::optional<std::vector<std::string>> ray_submission(const Options& options) {
  const DistributedArguments args(options);
  const bool speaks_of_it = args.ray_init_kwargs.is_set() || args.resources_per_worker.is_set() ||
                            args.placement_strategy.is_set() || args.ray_storage_path.is_set() || args.ray_run_name.is_set();
  if (!uses_ray(options) || !speaks_of_it || parallel::is_launched_externally()) return std::nullopt;
  std::vector<std::string> words{std::to_string(*args.ray_num_workers), "--address", "any"};
  const auto add = [&](const char* name, std::string value) { words.insert(words.end(), {name, std::move(value)}); };
  if (args.ray_init_kwargs.has_value())
    add("--init_kwargs", object_text(args.ray_init_kwargs, false, "arguments of ray.init: {\"address\": \"10.0.0.1:6379\"}"));
  add("--resources_per_worker",
      args.resources_per_worker.has_value() ? object_text(args.resources_per_worker, true, "amounts: {\"GPU\": 1}") : "auto");
  add("--placement_strategy", *args.placement_strategy);
  if (!args.ray_storage_path.has_value()) return words;
  const std::filesystem::path output = OutputArguments(options).output_dir.required();
  const auto name = args.ray_run_name.has_value() ? *args.ray_run_name : output.lexically_normal().filename().string();
  add("--output", output.string());
  add("--storage", (std::filesystem::absolute(*args.ray_storage_path) / name).string());
  return words;
}

}  // namespace hone::cli
