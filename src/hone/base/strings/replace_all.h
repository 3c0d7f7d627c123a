// A text with every occurrence of another replaced, like Python's str.replace().
#pragma once
#include <string>
#include <string_view>

namespace hone {

// An empty `what` occurs nowhere. `what` and `with` must not be parts of a text that is moved in.
inline std::string replace_all(std::string text, std::string_view what, std::string_view with) {
  size_t at = what.empty() ? text.npos : text.find(what);
  if (at == text.npos) return text;
  std::string out;
  out.reserve(text.size() + with.size());
  size_t done = 0;
  for (; at != text.npos; at = text.find(what, done)) {
    out.append(text, done, at - done).append(with);
    done = at + what.size();
  }
  out.append(text, done);
  return out;
}

}  // namespace hone
