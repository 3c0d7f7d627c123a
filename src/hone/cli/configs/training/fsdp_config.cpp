#include "hone/cli/configs/training/fsdp_config.h"

#include "hone/base/error.h"
#include "hone/cli/parsing/json_setting.h"

namespace hone::cli {
namespace {

constexpr std::string_view kFsdpExample = R"({"fsdp": "full_shard auto_wrap", "fsdp_config": {"fsdp_version": 2}})";

bool names_mapping(std::string_view text) {
  return text.ends_with(".json") || text.ends_with(".yaml") || text.ends_with(".yml") || text.find('/') != text.npos;
}

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

// Both settings of ms-swift's JSON. Keys that begin with _ are its comments.
parallel::ShardingRequest read_both(const DistributedArguments& args, const std::string& where, const Json& both) {
  if (!both.contains("fsdp") && !both.contains("fsdp_config"))
    throw UserError(ExitCode::usage, fmt::format("{} has neither fsdp nor fsdp_config", where),
                    fmt::format("write it as {}; settings of FSDP alone are {}", kFsdpExample, args.fsdp_config.flag()));
  if (both.contains("fsdp_config") && args.fsdp_config.has_value())
    throw UserError(ExitCode::usage, fmt::format("{} has an fsdp_config, and so has the run", where),
                    fmt::format("leave out {}", args.fsdp_config.flag()));
  const auto words = json_setting(where, both, "fsdp", List);
  const auto config = json_setting(where, both, "fsdp_config", JsonText);
  auto made = parallel::read_fsdp(words.is_null() ? "full_shard auto_wrap" : joined(words),
                                  config.is_null() && args.fsdp_config.has_value() ? *args.fsdp_config : config);
  for (const auto& [key, value] : both.items())
    if (key != "fsdp" && key != "fsdp_config" && !key.starts_with('_'))
      made.unknown.push_back(key + "; expected fsdp and fsdp_config");
  return made;
}

}  // namespace

parallel::ShardingRequest fsdp_request(const DistributedArguments& args) {
  const auto text = joined(*args.fsdp);
  if (text.starts_with('{'))
    return read_both(args, args.fsdp.flag(),
                     parse_json(text).or_throw(ExitCode::usage, args.fsdp.flag(), "quote it as one word"));
  if (names_mapping(text)) return read_both(args, text, read_mapping(text, kFsdpExample));
  return parallel::read_fsdp(text, args.fsdp_config.has_value() ? *args.fsdp_config : Json(nullptr));
}

}  // namespace hone::cli
