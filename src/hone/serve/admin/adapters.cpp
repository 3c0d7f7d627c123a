#include "hone/serve/admin/adapters.h"

#include <algorithm>

#include "hone/base/file.h"
#include "hone/serve/http/problem.h"
#include "hone/serve/schema/fields.h"

namespace hone::serve {

void Adapters::check_enabled() const {
  if (root_.empty())
    throw Problem(403, "this server does not load adapters by request; start it with --adapter_root", "", "adapters_disabled");
}

void Adapters::check_name(const std::string& name) {
  auto plain = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.' || c == '/'; };
  if (name.empty() || name.size() > 128 || !std::all_of(name.begin(), name.end(), plain))
    bad_value("lora_name", "expected letters, digits, . _ - and /, at most 128");
}

std::filesystem::path Adapters::resolve(const std::string& relative) const {
  fs::path asked(relative);
  bool climbs = std::any_of(asked.begin(), asked.end(), [](const fs::path& part) { return part == ".."; });
  bool usable = relative.find('\0') == relative.npos && !asked.is_absolute() && !climbs;
  std::error_code failure;
  auto folder = root_ / asked;
  if (!usable || !is_inside(root_, folder) || !fs::is_regular_file(folder / "adapter_config.json", failure))
    bad_value("lora_path", "no adapter of that name below the server's --adapter_root");
  return folder;
}

}  // namespace hone::serve
