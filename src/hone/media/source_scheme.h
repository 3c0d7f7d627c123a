// The scheme of a source, "data:" or "https://", which may be written in capitals.
#pragma once
#include <string>
#include <string_view>

#include "hone/base/strings/lower_case.h"
#include "hone/base/strings/trimmed.h"

namespace hone::media {

inline bool has_scheme(std::string_view source, std::string_view scheme) {
  return lower_case(source.substr(0, scheme.size())) == scheme;
}
inline bool is_data_uri(std::string_view source) { return has_scheme(source, "data:"); }
inline bool is_url(std::string_view source) { return has_scheme(source, "http://") || has_scheme(source, "https://"); }

// Without surrounding white space, and with its scheme in lower case.
inline std::string normalized_source(std::string_view source) {
  auto normalized = trimmed(source);
  for (const std::string_view scheme : {"data:", "http://", "https://", "file://"})
    if (has_scheme(normalized, scheme)) normalized.replace(0, scheme.size(), scheme);
  return normalized;
}

}  // namespace hone::media
