#include "hone/base/json.h"

#include <yaml-cpp/yaml.h>

#include <charconv>
#include <cmath>
#include <map>

#include "hone/base/file.h"

template class nlohmann::basic_json<nlohmann::ordered_map>;
template class nlohmann::detail::serializer<nlohmann::ordered_json>;

namespace hone {
namespace {

// Builds a Json through nlohmann's SAX interface, so that nesting depth is bounded before any recursive code sees the value.
class BoundedBuilder : public nlohmann::detail::json_sax_dom_parser<Json> {
  using Base = nlohmann::detail::json_sax_dom_parser<Json>;

 public:
  BoundedBuilder(Json& out, int max_depth) : Base(out, false), max_depth_(max_depth) {}
  bool start_object(std::size_t n) { return enter() && Base::start_object(n); }
  bool start_array(std::size_t n) { return enter() && Base::start_array(n); }
  bool end_object() { return --depth_, Base::end_object(); }
  bool end_array() { return --depth_, Base::end_array(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& cause) {
    message_ = cause.what();
    if (auto bracket = message_.find("] "); bracket != std::string::npos) message_ = message_.substr(bracket + 2);
    std::erase_if(message_, [](char c) { return static_cast<unsigned char>(c) > 0x7f; });  // "last read" may split a character
    return false;
  }
  const std::string& message() const { return message_; }

 private:
  bool enter() {
    if (++depth_ <= max_depth_) return true;
    message_ = fmt::format("nested deeper than {} levels", max_depth_);
    return false;
  }
  int max_depth_, depth_ = 0;
  std::string message_;
};

Json plain_scalar(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return nullptr;
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  if (text == ".inf" || text == "+.inf") return INFINITY;
  if (text == "-.inf") return -INFINITY;
  if (text == ".nan") return NAN;
  const char* first = text.data() + (text[0] == '+');
  const char* last = text.data() + text.size();
  int64_t integer;
  if (auto [end, status] = std::from_chars(first, last, integer); status == std::errc() && end == last) return integer;
  bool numeric = std::isdigit(static_cast<unsigned char>(*first)) || *first == '.' || *first == '-';
  double real;
  if (auto [end, status] = std::from_chars(first, last, real); numeric && status == std::errc() && end == last) return real;
  return text;
}

// Quoted text has the tag "!", plain text "?". A custom tag is kept: "!function f" becomes {"!function": "f"}.
Json tagged_scalar(const YAML::Node& node) {
  const auto& tag = node.Tag();
  if (tag == "!") return node.Scalar();
  if (tag.starts_with('!') && !tag.starts_with("!!")) return Json{{tag, node.Scalar()}};
  return plain_scalar(node.Scalar());
}

class YamlConverter {
  static constexpr size_t kMostKeys = 10'000;  // of one mapping: key lookup is linear

 public:
  YamlConverter(int max_depth, size_t max_nodes) : max_depth_(max_depth), nodes_left_(max_nodes) {}

  Json convert(const YAML::Node& node, int depth = 0) {
    if (depth > max_depth_) throw YAML::Exception(node.Mark(), fmt::format("nested deeper than {} levels", max_depth_));
    if (nodes_left_-- == 0) throw YAML::Exception(node.Mark(), "too many values (an alias that repeats itself?)");
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        return tagged_scalar(node);
      case YAML::NodeType::Sequence: {
        Json list = Json::array();
        for (const auto& item : node) list.push_back(convert(item, depth + 1));
        return list;
      }
      case YAML::NodeType::Map: {
        Json map = Json::object();
        for (const auto& entry : node) {
          if (!entry.first.IsScalar()) throw YAML::Exception(entry.first.Mark(), "a key must be a plain word");
          if (map.size() >= kMostKeys) throw YAML::Exception(entry.first.Mark(), fmt::format("more than {} keys", kMostKeys));
          if (map.contains(entry.first.Scalar()))
            throw YAML::Exception(entry.first.Mark(), fmt::format("the key \"{}\" occurs twice", entry.first.Scalar()));
          map[entry.first.Scalar()] = convert(entry.second, depth + 1);
        }
        return map;
      }
      default:
        return nullptr;
    }
  }

 private:
  int max_depth_;
  size_t nodes_left_;
};

}  // namespace

Result<Json> parse_json(std::string_view text, JsonLimits limits) {
  Json value;
  BoundedBuilder builder(value, limits.depth);
  try {
    if (Json::sax_parse(text.begin(), text.end(), &builder)) return value;
  } catch (const std::exception& cause) {
    return Error{cause.what()};
  }
  return Error{builder.message().empty() ? "not valid JSON" : builder.message()};
}

Result<Json> parse_yaml(std::string_view text, JsonLimits limits, size_t max_nodes) {
  // Bounds yaml-cpp's recursion by rejecting texts that nest deeper than the limit.
  int open = 0;
  for (char c : text) {
    if (c == '[' || c == '{') ++open;
    if (c == ']' || c == '}') --open;
    if (open > limits.depth * 4) return error("nested deeper than {} levels", limits.depth);
  }
  try {
    return YamlConverter(limits.depth, max_nodes).convert(YAML::Load(std::string(text)));
  } catch (const YAML::Exception& cause) {
    if (cause.mark.is_null()) return Error{cause.msg};
    return error("line {}, column {}: {}", cause.mark.line + 1, cause.mark.column + 1, cause.msg);
  } catch (const std::exception& cause) {
    return Error{cause.what()};
  }
}

Json sorted_by_key(const Json& value) {
  if (value.is_array()) {
    Json list = Json::array();
    for (const auto& item : value) list.push_back(sorted_by_key(item));
    return list;
  }
  if (!value.is_object()) return value;
  std::map<std::string, Json> members;
  for (const auto& [key, member] : value.items()) members.emplace(key, sorted_by_key(member));
  return members;
}

Json read_config_file(const std::string& path) {
  auto text = read_file(path);
  bool yaml = path.ends_with(".yaml") || path.ends_with(".yml");
  return (yaml ? parse_yaml(text) : parse_json(text)).or_throw(ExitCode::usage, path);
}

}  // namespace hone
