#include "hone/engine/constraints/json_schema.h"

#include <algorithm>
#include <map>
#include <set>

#include "hone/engine/constraints/json_layout.h"
#include "hone/engine/constraints/json_rules.h"
#include "hone/engine/constraints/one_of.h"
#include "hone/engine/constraints/schema_validator.h"

namespace hone::engine {
namespace {

constexpr size_t kMostNodes = 20'000;  // of schemas visited
constexpr size_t kMostPlaces = 1'000;  // items of a list that have their own schema
constexpr int kDeepest = 64;           // nesting depth of a schema's own keywords
constexpr int kRoomToRecur = 4;        // guaranteed nesting depth of recursive definitions
constexpr const char* kExactlyOne = "oneOf";

Pattern text(std::string_view utf8) { return pattern_text(utf8); }

std::string type_name(const Json& value) {
  if (!value.is_string())
    throw UnsupportedSchema{fmt::format("\"type\" is {}; expected the name of a type", value.dump().substr(0, 64))};
  return value.get<std::string>();
}

const std::vector<const char*> kStringWords{"pattern", "format", "minLength", "maxLength"},
    kNumberWords{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};

// Keywords that apply to a single type, for schemas that name no type.
const std::pair<const char*, std::vector<const char*>> kImplied[] = {
    {"object", {"properties", "required", "additionalProperties", "unevaluatedProperties"}},
    {"array", {"items", "prefixItems", "minItems", "maxItems"}},
    {"string", kStringWords},
    {"number", kNumberWords},
};

class Reader {
 public:
  Reader(const Json& root, int depth) : most_depth_(depth), view_(root), validator_(view_) { open_.emplace(&root, 0); }

  Pattern value(const Json& named, int depth) {
    if (++visited_ > kMostNodes) throw UnsupportedSchema{"it is too large, or its references multiply too often"};
    const Json& schema = view_.followed(named);
    Passage passage(*this, &schema != &named ? &schema : nullptr, depth);
    if (&schema != &named) ++depth;
    if (schema.is_boolean()) return schema.get<bool>() ? anything(depth) : pattern_nothing();
    if (!schema.is_object()) throw UnsupportedSchema{fmt::format("{} where a schema should be", schema.type_name())};
    if (depth > limit_) return pattern_nothing();
    refuse_unknown_keywords(schema);
    if (schema.contains("$ref") || schema.contains("allOf")) {
      end_soon_behind(depth);  // copied keywords may hide a recursion
      return value(view_.flattened(schema), depth + 1);
    }
    if (schema.contains("const")) return constant(schema, schema["const"]);
    if (schema.contains("enum")) return enumeration(view_.without(schema, "enum"), schema_list(schema, "enum"));
    for (const char* name : {"anyOf", kExactlyOne})
      if (schema.contains(name)) return alternatives(schema, name, depth);
    return typed(schema, depth);
  }

 private:
  // Tracks the enclosing definitions: a repeated one could recurse forever.
  class Passage {
   public:
    Passage(Reader& reader, const Json* definition, int depth) : reader_(reader), limit_before_(reader.limit_) {
      if (!definition) return;
      auto [entry, fresh] = reader.open_.emplace(definition, depth);
      if (fresh)
        opened_ = definition;
      else
        reader.end_soon_behind(entry->second);
    }
    ~Passage() {
      if (opened_) reader_.open_.erase(opened_);
      reader_.limit_ = limit_before_;
    }
    Passage(const Passage&) = delete;

   private:
    Reader& reader_;
    const int limit_before_;
    const Json* opened_ = nullptr;
  };
  void end_soon_behind(int depth) { limit_ = std::min(limit_, std::max(most_depth_, depth + kRoomToRecur)); }

  // Patterns of a client's strings are built once each and charged by size.
  template <class Make>
  Pattern kept(const std::string& words, const Make& make) {
    view_.spend_bytes(words.size());
    auto& known = kept_[words];
    if (!known) {
      known = make();
      view_.spend_bytes(pattern_bytes(known));
    }
    return known;
  }

  Pattern literal(const Json& value) {
    auto written = value.dump();
    return kept(written, [&] { return text(written); });
  }

  // The value, if the schema accepts it.
  Pattern constant(const Json& schema, const Json& value) {
    return validator_.accepts(schema, value) ? literal(value) : pattern_nothing();
  }

  Pattern enumeration(const Json& schema, const Json& values) {
    std::vector<Pattern> parts;
    for (const auto& item : values) parts.push_back(constant(schema, item));
    return pattern_choice(std::move(parts));
  }

  // What an alternative and its sibling keywords accept; false if nothing.
  Json together(const Json& rest, const Json& part) try {
    auto whole = view_.flattened(part);
    return whole == false ? whole : view_.merged(rest, whole);
  } catch (const SchemaContradiction&) {
    return false;
  }

  // Combines each alternative with the sibling keywords. "oneOf" is compiled like "anyOf", which is correct only if no two
  // alternatives can match the same value.
  Pattern alternatives(const Json& schema, const char* name, int depth) {
    const auto& all = schema_list(schema, name);
    if (std::string_view(name) == kExactlyOne) require_disjoint(all, view_, validator_);
    auto rest = view_.without(schema, name);
    std::vector<Pattern> parts;
    for (const auto& part : all) {
      if (part == true || rest.empty()) {
        parts.push_back(value(part == true ? rest : part, depth + 1));
      } else if (auto whole = together(rest, part); whole != false) {
        parts.push_back(value(whole, depth + 1));
      }
    }
    return pattern_choice(std::move(parts));
  }

  Pattern typed(const Json& schema, int depth) {
    auto type = schema.find("type");
    if (type != schema.end() && type->is_array()) {
      std::vector<Pattern> parts;
      for (const auto& one : *type) parts.push_back(of_type(type_name(one), schema, depth));
      return pattern_choice(std::move(parts));
    }
    if (type != schema.end()) return of_type(type_name(*type), schema, depth);
    for (const auto& [implied, words] : kImplied)
      for (const char* word : words)
        if (schema.contains(word)) return of_type(implied, schema, depth);
    return anything(depth);
  }

  Pattern of_type(const std::string& type, const Json& schema, int depth) {
    if (type == "string") return by_words(type, kStringWords, schema, json_string);
    if (type == "integer") return by_words(type, kNumberWords, schema, json_integer);
    if (type == "number") return by_words(type, kNumberWords, schema, json_number);
    if (type == "boolean") return pattern_choice({text("true"), text("false")});
    if (type == "null") return text("null");
    if (type == "object") return object(schema, depth);
    if (type == "array") return array(schema, depth);
    throw UnsupportedSchema{fmt::format("the type \"{}\" is unknown", type)};
  }

  Pattern by_words(const std::string& type, const std::vector<const char*>& words, const Json& schema,
                   Pattern (*make)(const Json&)) {
    auto asked = type;
    for (const char* word : words)
      if (auto found = schema.find(word); found != schema.end()) asked += fmt::format(" {} {}", word, found->dump());
    return kept(asked, [&] { return make(schema); });
  }

  Pattern array(const Json& schema, int depth) {
    int least = size_bound(schema, "minItems", 0), most = size_bound(schema, "maxItems", -1);
    if (most >= 0 && least > most) return pattern_nothing();
    if (schema.contains("prefixItems")) return json_enclosed("[", tuple(schema, least, most, depth), "]");
    auto items = schema.contains("items") ? value(schema["items"], depth + 1) : anything(depth + 1);
    return json_enclosed("[", json_list(items, least, most), "]");
  }

  // Items with their own schema; further items only if "items" or "minItems" allows them.
  Pattern tuple(const Json& schema, int least, int most, int depth) {
    const auto& prefix = schema_list(schema, "prefixItems");
    if (prefix.size() > kMostPlaces)
      throw UnsupportedSchema{
          fmt::format("\"prefixItems\" has {} items; at most {} can be followed", prefix.size(), kMostPlaces)};
    auto own = static_cast<int>(prefix.size()), last = most < 0 ? own : std::min(own, most);
    auto tail = pattern_sequence({});
    if (most < 0 || most > own) {
      auto others = schema.contains("items") ? value(schema["items"], depth + 1)
                    : least > own            ? anything(depth + 1)
                                             : pattern_nothing();
      tail = pattern_repeat(pattern_sequence({json_comma(), others}), std::max(least - own, 0), most < 0 ? -1 : most - own);
    }
    for (int i = last - 1; i >= 0; --i) {
      auto item = value(prefix[static_cast<size_t>(i)], depth + 1);
      auto from_here = pattern_sequence(i == 0 ? std::vector{item, tail} : std::vector{json_comma(), item, tail});
      tail = i < least ? from_here : pattern_optional(from_here);
    }
    return tail;
  }

  Pattern object(const Json& schema, int depth) {
    static const Json kNone = Json::object(), kAnything = true;
    const Json& properties = schema.contains("properties") ? schema["properties"] : kNone;
    if (!properties.is_object()) throw UnsupportedSchema{"\"properties\" is not an object"};
    const Json& more = schema.contains("additionalProperties")    ? schema["additionalProperties"]
                       : schema.contains("unevaluatedProperties") ? schema["unevaluatedProperties"]
                                                                  : kAnything;
    std::set<std::string> required;
    for (const auto& name : schema.value("required", Json::array())) required.insert(name.get<std::string>());
    if (properties.empty() && required.empty())
      return json_enclosed("{", json_list(json_member(json_any_string(), value(more, depth + 1)), 0, -1), "}");
    std::vector<JsonMember> members;
    for (const auto& [name, content] : properties.items()) {
      members.push_back({json_member(literal(name), value(content, depth + 1)), required.contains(name)});
      required.erase(name);
    }
    for (const auto& name : required) members.push_back({json_member(literal(name), value(more, depth + 1)), true});
    return json_enclosed("{", json_members(members), "}");
  }

  // Free-form JSON, nested up to the remaining depth.
  Pattern anything(int depth) {
    auto left = static_cast<size_t>(std::max(most_depth_ - depth, 0));
    if (anything_.empty()) anything_.push_back(scalar());
    while (anything_.size() <= left) {
      const auto inside = anything_.back();
      anything_.push_back(pattern_choice({scalar(), json_enclosed("[", json_list(inside, 0, -1), "]"),
                                          json_enclosed("{", json_list(json_member(json_any_string(), inside), 0, -1), "}")}));
    }
    return anything_[left];
  }
  static Pattern scalar() {
    return pattern_choice({json_any_string(), json_number(Json::object()), text("true"), text("false"), text("null")});
  }

  int most_depth_, limit_ = kDeepest;
  size_t visited_ = 0;
  std::map<const Json*, int> open_;  // and their depth
  SchemaResolver view_;
  SchemaValidator validator_;
  std::map<std::string, Pattern> kept_;
  std::vector<Pattern> anything_;  // by nesting depth
};

}  // namespace

Result<Pattern> schema_pattern(const Json& schema, int depth) try {
  auto pattern = Reader(schema, depth).value(schema, 0);
  if (pattern->kind == PatternNode::Kind::nothing)
    return error("the schema accepts nothing, or only texts that nest too deep (more than {}, or {} of references to themselves)",
                 kDeepest, depth);
  return pattern;
} catch (const UnsupportedSchema& refusal) {
  return error("the schema cannot be followed: {}", refusal.message);
} catch (const Json::exception& problem) {
  std::string_view what = problem.what();  // "[json.exception.type_error.302] type must be string, but is number"
  return error("the schema is malformed: of a keyword's value, the {}", what.substr(std::min(what.find("] ") + 2, what.size())));
}

}  // namespace hone::engine
