#include "hone/serve/admin/adapters.h"

#include <algorithm>

#include "hone/base/file.h"
#include "hone/base/strings/counted.h"
#include "hone/serve/http/api_error.h"
#include "hone/serve/schema/fields.h"

namespace hone::serve {

void Adapters::check_enabled() const {
  if (root_.empty())
    throw ApiError(403, "this server does not load adapters by request; start it with `adapter_root`", "", "adapters_disabled");
}

void Adapters::check_name(const std::string& name) {
  auto plain = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.' || c == '/'; };
  auto climbs = [](const fs::path& part) { return part.empty() || part == "." || part == ".."; };
  fs::path parts(name);
  bool goes_elsewhere = parts.is_absolute() || name.find("//") != name.npos || std::any_of(parts.begin(), parts.end(), climbs);
  if (name.empty() || name.size() > 128 || goes_elsewhere || !std::all_of(name.begin(), name.end(), plain))
    bad_value("lora_name", "expected words of letters, digits, . _ and -, with / between them, at most 128 in all");
}

Adapters::LoadingSlot::LoadingSlot(Adapters& owner) : owner_(owner) {
  if (owner.entries_.size() + owner.loading_ >= owner.most_)
    throw ApiError(409,
                   fmt::format("this server keeps at most {} (`max_loras`); unload one first", counted(owner.most_, "adapter")),
                   "lora_name", "too_many_adapters");
  ++owner.loading_;
}

std::filesystem::path Adapters::resolve(const std::string& path) const {
  fs::path asked(path);
  bool climbs = std::any_of(asked.begin(), asked.end(), [](const fs::path& part) { return part == ".."; });
  bool usable = path.find('\0') == path.npos && !climbs;
  std::error_code failure;
  auto folder = root_ / asked;  // an absolute path stays as it is
  if (!usable || !is_inside(root_, folder) || !fs::is_regular_file(folder / "adapter_config.json", failure))
    bad_value("lora_path", "no adapter of that name below the server's `adapter_root`");
  return folder;
}

}  // namespace hone::serve
