#include "hone/hub/nearby.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "hone/base/strings/edit_distance.h"

namespace hone::hub {
namespace {

namespace fs = std::filesystem;

std::string letters_of(std::string_view name) {
  std::string letters;
  std::ranges::copy_if(name, std::back_inserter(letters), [](unsigned char c) { return !std::isdigit(c); });
  return letters;
}

}  // namespace

fs::path nearest_path(const fs::path& path) {
  auto wanted = path.lexically_normal();
  if (!wanted.has_filename()) wanted = wanted.parent_path();
  const auto name = wanted.filename().string();
  const auto folder = wanted.has_parent_path() ? wanted.parent_path() : fs::path(".");
  std::error_code failure;
  fs::path nearest;
  size_t best = std::max<size_t>(1, name.size() / 4) + 1;
  for (const auto& entry : fs::directory_iterator(folder, failure)) {
    const auto other = entry.path().filename().string();
    if (other.starts_with('.') || letters_of(other) == letters_of(name)) continue;
    if (auto distance = edit_distance(name, other); distance < best)
      best = distance, nearest = wanted.has_parent_path() ? folder / other : fs::path(other);
  }
  if (!nearest.empty() || wanted.parent_path() == wanted || !wanted.has_parent_path()) return nearest;  // "/" is its own parent
  // Perhaps the parent folder is misspelled: "model/nano".
  auto parent = nearest_path(wanted.parent_path());
  return !parent.empty() && fs::exists(parent / name, failure) ? parent / name : fs::path();
}

std::string spelling_hint(const fs::path& path, const std::string& otherwise) {
  auto nearest = nearest_path(path);
  return nearest.empty() ? otherwise : fmt::format("did you mean {}", nearest.string());
}

}  // namespace hone::hub
