#include "hone/cli/configs/rope_scaling.h"

#include <algorithm>
#include <cmath>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/base/model_file.h"
#include "hone/cli/arguments/data.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/configs/data_config.h"

namespace hone::cli {
namespace {

int64_t context_of(const Json& config) {
  auto context = config.value("max_position_embeddings", Json());
  if (!context.is_number_integer() || context.get<int64_t>() <= 0)
    throw UserError(ExitCode::usage, "rope_scaling: config.json names no max_position_embeddings to stretch");
  return context.get<int64_t>();
}

const char* rope_key(const Json& config) { return config.contains("rope_parameters") ? "rope_parameters" : "rope_scaling"; }

Json present_scaling(const Json& config) {
  auto scaling = config.value(rope_key(config), Json());
  return scaling.is_object() ? scaling : Json::object();
}

// The rope scaling as in config.json: transformers 5 stores the base frequency in the same object.
Json with_scaling(const Json& config, Json scaling, int64_t context) {
  auto before = present_scaling(config);
  if (before.contains("rope_theta")) scaling["rope_theta"] = before["rope_theta"];
  return {{rope_key(config), std::move(scaling)}, {"max_position_embeddings", context}};
}

Json asked_scaling(const ModelArguments& args) {
  const auto& value = args.rope_scaling.raw();
  bool name = value.is_string() && !fs::exists(args.rope_scaling.text());
  Json scaling = name ? Json{{"rope_type", args.rope_scaling.text()}} : *args.rope_scaling;
  if (!scaling.is_object())
    throw UserError(ExitCode::usage, fmt::format("{} is {}", args.rope_scaling.flag(), scaling.dump()),
                    "expected a name or an object");
  if (scaling.contains("type") && !scaling.contains("rope_type")) scaling["rope_type"] = scaling["type"];
  return scaling;
}

Json swift_rope_scaling(const ModelArguments& args, const Json& config) {
  auto before = present_scaling(config);
  if (!args.rope_scaling.has_value()) {
    if (!before.contains("factor")) {
      const auto trained = config.value("max_position_embeddings", Json());
      if (trained.is_number_integer() && *args.max_model_len > trained.get<int64_t>())
        log::warn_once(fmt::format("{} is {}, and the model was trained on {} positions: set {} yarn to extend them",
                                   args.max_model_len.flag(), *args.max_model_len, trained.dump(), args.rope_scaling.flag()));
      return {{"max_position_embeddings", *args.max_model_len}};
    }
    before.erase("factor");  // already scaled, now to another length
  }
  auto scaling = args.rope_scaling.has_value() ? asked_scaling(args) : before;
  if (!scaling.contains("factor") && !args.max_model_len.has_value())
    throw UserError(ExitCode::usage, fmt::format("{} names no factor", args.rope_scaling.flag()),
                    "add --max_model_len, or a factor in its JSON");
  auto original = scaling.value("original_max_position_embeddings", before.value("original_max_position_embeddings", Json()));
  if (!original.is_number_integer()) original = context_of(config);
  scaling["original_max_position_embeddings"] = original;
  double trained = original.get<double>();
  if (!scaling.contains("factor"))
    scaling["factor"] = std::max(1.0, std::ceil(static_cast<double>(*args.max_model_len) / trained));
  if (!scaling["factor"].is_number())
    throw UserError(ExitCode::usage, fmt::format("{}: factor is {}", args.rope_scaling.flag(), scaling["factor"].dump()),
                    "expected a number");
  auto reach = static_cast<int64_t>(trained * scaling["factor"].get<double>());
  auto context = args.max_model_len.value_or(reach);
  if (context > reach) log::warning("{} {} is beyond what the scaling reaches, {}", args.max_model_len.flag(), context, reach);
  return with_scaling(config, std::move(scaling), context);
}

Json factory_rope_scaling(const Options& options, const Json& config) {
  const DataArguments data_args(options);
  const ModelArguments model_args(options);
  auto before = present_scaling(config).value("original_max_position_embeddings", Json());
  auto context = before.is_number_integer() ? before.get<int64_t>() : context_of(config);
  bool trains = options.verb() & kTraining;
  auto wanted = trains ? *data_args.max_length : 0;
  if (trains && wanted <= context) {
    log::warning("{} is ignored: {} {} fits into the model's context of {}", model_args.rope_scaling.flag(),
                 data_args.max_length.flag(), wanted, context);
    return Json::object();
  }
  double factor = trains ? std::ceil(static_cast<double>(wanted) / static_cast<double>(context)) : 2.0;
  auto scaling = asked_scaling(model_args);
  scaling["factor"] = factor;
  scaling["original_max_position_embeddings"] = context;
  if (scaling["rope_type"] == "llama3") scaling["low_freq_factor"] = 1.0, scaling["high_freq_factor"] = 4.0;
  return with_scaling(config, std::move(scaling), static_cast<int64_t>(static_cast<double>(context) * factor));
}

}  // namespace

Json rope_scaling_changes(const Options& options, const std::filesystem::path& folder) {
  const ModelArguments args(options);
  if (!args.rope_scaling.has_value() && !args.max_model_len.has_value()) return Json::object();
  auto config = read_model_file(folder / "config.json");
  return uses_factory_dialect(options) ? factory_rope_scaling(options, config) : swift_rope_scaling(args, config);
}

}  // namespace hone::cli
