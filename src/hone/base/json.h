// JSON and YAML as one value type. Objects keep the order of their keys, as Python's do.
#pragma once
#include <nlohmann/json.hpp>
#include <string_view>

#include "hone/base/error.h"

// Compiled once, in json.cpp, instead of in every file that uses them.
extern template class nlohmann::basic_json<nlohmann::ordered_map>;
extern template class nlohmann::detail::serializer<nlohmann::ordered_json>;

namespace hone {

// Looking a key up is linear: fine for configs and rows, wrong for a vocabulary (text/ reads those with simdjson).
using Json = nlohmann::ordered_json;

struct JsonLimits {
  int depth = 128;
};

// Strict RFC 8259: NaN and Infinity, which Python's json module writes, are rejected, and so is invalid UTF-8.
Result<Json> parse_json(std::string_view text, JsonLimits limits = {});

// YAML 1.1 scalars as LLaMA-Factory's users mean them: 1e-4 is a number, yes/no stay strings, true/false/null are typed.
// Aliases are expanded at most `max_nodes` values in all.
Result<Json> parse_yaml(std::string_view text, JsonLimits limits = {}, size_t max_nodes = 1'000'000);

// The value with the keys of every object in alphabetical order.
Json sorted_by_key(const Json& value);

// Reads a .json, .yaml or .yml file; throws UserError naming the file.
Json read_config_file(const std::string& path);

}  // namespace hone
