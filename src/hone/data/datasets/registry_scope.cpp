#include "hone/data/datasets/registry_scope.h"

#include "hone/base/file.h"
#include "hone/hub/cache.h"

namespace hone::data {
namespace {

bool holds_model(const fs::path& folder) {
  std::error_code ignored;
  auto has = [&](const char* name) { return fs::exists(folder / name, ignored); };
  return has("adapter_config.json") || (has("config.json") && (has("model.safetensors") || has("model.safetensors.index.json")));
}

// The model, adapter or checkpoint folder that contains or equals `folder`; empty if none.
fs::path model_root(const fs::path& folder) {
  for (auto at = fs::weakly_canonical(fs::absolute(folder));; at = at.parent_path()) {
    if (holds_model(at)) return at;
    if (at == at.root_path()) return {};
  }
}

// In a hub cache, files are symlinks to elsewhere in the cache: the path must stay in the folder, its target in the cache.
bool stays_inside(const fs::path& folder, const fs::path& root, const fs::path& path) {
  auto relative = fs::absolute(path).lexically_normal().lexically_relative(fs::absolute(folder).lexically_normal());
  return !relative.empty() && *relative.begin() != ".." && is_inside(root, path);
}

}  // namespace

void refuse_outside(const fs::path& registry, const std::string& name, const fs::path& path) {
  auto folder = registry.parent_path().empty() ? fs::path(".") : registry.parent_path();
  auto downloaded = hub::download_root(folder);
  auto root = downloaded.value_or(model_root(folder));
  if (root.empty() || stays_inside(folder, root, path)) return;
  throw UserError(
      ExitCode::bad_data,
      fmt::format("{}: dataset \"{}\" names {}, which is outside {}; expected a file inside, for this list {}", registry.string(),
                  name, path.lexically_normal().string(), folder.string(), downloaded ? "came from a hub" : "came with a model"),
      "if you trust it, name the file in your own list, in your own folder");
}

}  // namespace hone::data
