// How embeddings are computed, as in sentence-transformers:
// modules.json lists the modules, 1_Pooling/config.json the pooling.
#include "hone/base/file.h"
#include "hone/serve/openai/embed_model.h"

namespace hone::serve {
namespace {

struct PoolingName {
  std::string_view name, flag;
  Pooling pooling;
};
constexpr PoolingName kPoolings[] = {
    {"last", "pooling_mode_lasttoken", Pooling::last},
    {"cls", "pooling_mode_cls_token", Pooling::first},
    {"mean", "pooling_mode_mean_tokens", Pooling::mean},
    {"max", "pooling_mode_max_tokens", Pooling::max},
    {"weightedmean", "pooling_mode_weightedmean_tokens", Pooling::weighted_mean},
    {"mean_sqrt_len", "pooling_mode_mean_sqrt_len_tokens", Pooling::mean_sqrt_len},
};

[[noreturn]] void unknown_pooling(const fs::path& file) {
  throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: not one pooling that is known here", file.string()),
                  "expected one of pooling_mode_lasttoken, _cls_token, _mean_tokens, _max_tokens, _weightedmean_tokens, "
                  "_mean_sqrt_len_tokens");
}

Pooling read_pooling(const fs::path& file) {
  auto config = parse_json(read_file(file)).or_throw(ExitCode::bad_checkpoint, file.string());
  std::vector<Pooling> asked;
  if (auto name = config.value("pooling_mode", Json()); name.is_string()) {  // the newer format
    auto known = pooling_named(name == "lasttoken"              ? "last"
                               : name == "mean_sqrt_len_tokens" ? "mean_sqrt_len"
                                                                : name.get<std::string>());
    if (!known) unknown_pooling(file);
    return *known;
  }
  for (const auto& row : kPoolings)
    if (config.value(std::string(row.flag), Json()) == true) asked.push_back(row.pooling);
  if (asked.size() != 1) unknown_pooling(file);
  return asked[0];
}

}  // namespace

std::optional<Pooling> pooling_named(std::string_view name) {
  for (const auto& row : kPoolings)
    if (row.name == name) return row.pooling;
  return std::nullopt;
}

PoolingConfig read_embedding_style(const fs::path& folder) {
  auto file = folder / "modules.json";
  if (!fs::exists(file)) return {};
  auto modules = parse_json(read_file(file)).or_throw(ExitCode::bad_checkpoint, file.string());
  PoolingConfig style{.unit = false};
  for (const auto& module : modules) {
    auto type = module.is_object() ? module.value("type", Json()) : Json();
    auto path = module.is_object() ? module.value("path", Json()) : Json();
    if (!type.is_string() || !path.is_string())
      throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: expected a list of modules with type and path", file.string()));
    auto kind = type.get<std::string>();
    if (kind.ends_with(".Pooling")) {
      auto config = folder / path.get<std::string>() / "config.json";
      if (!is_inside(folder, config)) unknown_pooling(config);
      style.pooling = read_pooling(config);
    }
    if (kind.ends_with(".Normalize")) style.unit = true;
  }
  return style;
}

}  // namespace hone::serve
