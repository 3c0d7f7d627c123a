#include "hone/data/formats/python_json.h"

namespace hone::data {
namespace {

void append(std::string& out, const Json& value) {
  if (value.is_object()) {
    out += '{';
    for (bool first = true; const auto& [key, item] : value.items()) {
      if (!std::exchange(first, false)) out += ", ";
      out += Json(key).dump() + ": ";
      append(out, item);
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    for (bool first = true; const auto& item : value) {
      if (!std::exchange(first, false)) out += ", ";
      append(out, item);
    }
    out += ']';
  } else {
    out += value.dump();
  }
}

}  // namespace

std::string dump_python_json(const Json& value) {
  std::string out;
  append(out, value);
  return out;
}

}  // namespace hone::data
