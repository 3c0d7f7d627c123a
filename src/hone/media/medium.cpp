#include "hone/media/medium.h"

#include <algorithm>
#include <cctype>

#include "hone/base/strings/base64.h"
#include "hone/base/strings/lower_case.h"
#include "hone/media/source_scheme.h"

namespace hone::media {
namespace {

constexpr size_t kLongestPath = 2000;  // longer strings are base64, as in ms-swift

constexpr std::string_view kBlanks = " \t\r\n";

// Base64 is often written in lines.
Result<std::string> decoded(std::string_view encoded, size_t most_bytes) {
  if (encoded.size() / 4 * 3 > most_bytes) return error("more than {} bytes of base64", most_bytes);
  if (encoded.find_first_of(kBlanks) == encoded.npos) return decode_base64(encoded);
  std::string joined(encoded);
  std::erase_if(joined, [](char c) { return kBlanks.find(c) != kBlanks.npos; });
  return decode_base64(joined);
}

Result<std::string> data_of_uri(std::string_view source, size_t most_bytes) {
  const size_t comma = source.find(',');
  if (comma == source.npos || !lower_case(source.substr(0, comma)).ends_with(";base64"))
    return error("a data: URI without \";base64,\"; expected data:image/png;base64,…");
  return decoded(source.substr(comma + 1), most_bytes);
}

// "ftp" of "ftp://server/cat.png"; "" for paths, base64 and the schemes that are read.
std::string_view unread_scheme(std::string_view source) {
  const auto scheme = source.substr(0, source.find("://"));
  const bool is_scheme =
      scheme.size() < source.size() && !scheme.empty() && scheme.size() < 16 && scheme != "file" &&
      std::ranges::all_of(scheme, [](unsigned char c) { return std::isalnum(c) || c == '+' || c == '.' || c == '-'; });
  return is_scheme ? scheme : std::string_view();
}

std::optional<fs::path> existing_file(const std::string& source, const SourceRules& rules) {
  if (source.size() > kLongestPath || source.find('\0') != source.npos) return std::nullopt;
  constexpr std::string_view kScheme = "file://";
  const fs::path path = source.starts_with(kScheme) ? source.substr(kScheme.size()) : source;
  std::error_code unreadable;
  for (const auto& candidate : {path, rules.folder.empty() || path.is_absolute() ? path : rules.folder / path})
    if (fs::exists(candidate, unreadable)) return candidate;
  return std::nullopt;
}

// With the folders that a relative path was looked for in.
Error missing_file(const std::string& source, const SourceRules& rules) {
  if (const auto scheme = unread_scheme(source); !scheme.empty())
    return error("{}:// is not read; expected http://, https://, file://, a data: URI, base64 or a path", scheme);
  if (source.starts_with('/') || source.starts_with("file:///") || source.size() > kLongestPath) return error("no such file");
  std::error_code unreadable;
  const auto here = fs::current_path(unreadable).string();
  return rules.folder.empty() ? error("no such file in {}", here)
                              : error("no such file in {} or {}", here, rules.folder.string());
}

}  // namespace

Result<Medium> Medium::map(const fs::path& path, size_t most_bytes) {
  std::error_code unreadable;
  if (!fs::is_regular_file(path, unreadable)) return error("not a regular file");
  if (fs::file_size(path, unreadable) > most_bytes) return error("more than {} bytes", most_bytes);
  if (fs::file_size(path, unreadable) == 0) return error("0 bytes; expected a picture, a video or a recording");
  try {
    return Medium(MappedFile(path));
  } catch (const UserError& problem) {
    return Error{problem.what()};
  }
}

Result<Medium> Medium::open(const std::string& given, const SourceRules& rules) {
  const auto source = normalized_source(given);
  if (source.empty()) return error("an empty path");
  if (is_url(source)) {
    if (!rules.fetch) return error("an address, which is not fetched; download it and give the path");
    auto path = rules.fetch(source);
    return path ? map(*path, rules.most_bytes) : Result<Medium>(Error{path.error()});
  }
  if (is_data_uri(source)) {
    auto data = data_of_uri(source, rules.most_bytes);
    if (!data) return Error{data.error()};
    return Medium(std::move(*data));
  }
  if (auto path = rules.paths ? existing_file(source, rules) : std::nullopt) return map(*path, rules.most_bytes);
  auto data = decoded(source, rules.most_bytes);
  if (data && !data->empty() && (source.size() > kLongestPath || source.find('.') == source.npos))
    return Medium(std::move(*data));
  return rules.paths ? missing_file(source, rules) : error("neither a data: URI nor base64; files of this machine are not read");
}

std::string_view Medium::bytes() const {
  if (const auto* file = std::get_if<MappedFile>(&content_)) return file->text();
  return std::get<std::string>(content_);
}

std::string data_uri(std::string_view bytes, std::string_view type) {
  return fmt::format("data:{};base64,{}", type, encode_base64(bytes));
}

std::string describe_source(const std::string& source) {
  constexpr size_t kShown = 200;
  if (is_data_uri(source)) return fmt::format("{} ({} characters)", source.substr(0, source.find(',')), source.size());
  if (source.size() > kShown) return fmt::format("base64 ({} characters)", source.size());
  return source;
}

}  // namespace hone::media
