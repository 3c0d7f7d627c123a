#include "hone/data/readers/json_row.h"

#include <simdjson.h>

#include <algorithm>
#include <unordered_set>

#include "hone/base/strings/utf8.h"
#include "hone/data/readers/encoding.h"
#include "hone/data/row_report.h"

namespace hone::data {
namespace {

constexpr int kMaxRowDepth = 128;

struct Refusal {
  RowProblem problem;
  std::string details;
};

// Rows have few keys: a linear comparison beats hashing up to this number.
bool repeats_a_key(const simdjson::dom::object& object) {
  constexpr size_t kFew = 16;
  std::array<std::string_view, kFew> seen;
  std::unordered_set<std::string_view> many;
  size_t count = 0;
  for (auto field : object) {
    if (count < kFew) {
      if (std::find(seen.begin(), seen.begin() + count, field.key) != seen.begin() + count) return true;
      seen[count++] = field.key;
      continue;
    }
    if (many.empty()) many.insert(seen.begin(), seen.end());
    if (!many.insert(field.key).second) return true;
  }
  return false;
}

// Fills `out` or returns the error. Strings are converted to Json without an intermediate tree.
std::optional<Refusal> convert(const simdjson::dom::element& value, Json& out, int depth) {
  using Type = simdjson::dom::element_type;
  if (depth > kMaxRowDepth) return Refusal{RowProblem::json, fmt::format("nested deeper than {} levels", kMaxRowDepth)};
  switch (value.type()) {
    case Type::OBJECT: {
      simdjson::dom::object object = value.get_object();
      if (repeats_a_key(object)) return Refusal{RowProblem::duplicate_key, "an object names a key twice; expected each key once"};
      auto& fields = (out = Json::object()).get_ref<Json::object_t&>();
      for (auto field : object) {
        fields.emplace_back(std::string(field.key), nullptr);
        if (auto refusal = convert(field.value, fields.back().second, depth + 1)) return refusal;
      }
      return std::nullopt;
    }
    case Type::ARRAY: {
      auto& items = (out = Json::array()).get_ref<Json::array_t&>();
      for (auto item : simdjson::dom::array(value)) {
        items.emplace_back();
        if (auto refusal = convert(item, items.back(), depth + 1)) return refusal;
      }
      return std::nullopt;
    }
    case Type::STRING:
      out = std::string(std::string_view(value));
      return std::nullopt;
    case Type::INT64:
      out = int64_t(value);
      return std::nullopt;
    case Type::UINT64:
      out = uint64_t(value);
      return std::nullopt;
    case Type::DOUBLE:
      out = double(value);
      return std::nullopt;
    case Type::BOOL:
      out = bool(value);
      return std::nullopt;
    case Type::NULL_VALUE:
      out = nullptr;
      return std::nullopt;
  }
  return Refusal{RowProblem::json, "a value of no known type"};
}

std::string excerpt(std::string_view text) {
  constexpr size_t kShown = 40;
  const size_t end = character_begin(text, std::min(text.size(), kShown));
  std::string shown(text.substr(0, end));
  bool is_utf8 = simdjson::validate_utf8(shown);
  for (char& c : shown)
    if (auto byte = static_cast<unsigned char>(c); byte < 0x20 || byte == 0x7f || (byte > 0x7f && !is_utf8)) c = '?';
  return end < text.size() ? shown + "…" : shown;
}

// “query”：“…” as typed with a Chinese input method.
bool has_fullwidth_marks(std::string_view text) {
  constexpr std::string_view kMarks[] = {"“", "”", "："};
  const auto head = text.substr(0, text.find('"'));
  return std::ranges::any_of(kMarks, [&](auto mark) { return head.find(mark) != head.npos; });
}

// simdjson reports only the kind of error; the slower parser also reports the position. It accepts integers beyond 64 bits.
Result<Json> parse_slowly(std::string_view text, const RowOrigin& origin) {
  auto parsed = parse_json(text, {.depth = kMaxRowDepth});
  if (parsed) return parsed;
  const char* advice = text.starts_with("{'")      ? ", and this is a Python dict: write rows with json.dumps"
                       : has_fullwidth_marks(text) ? ", with \" : and , of a Latin keyboard in place of “ ” ： and ，"
                                                   : "";
  return row_error(RowProblem::json, origin.str(),
                   fmt::format("{} in \"{}\"; expected one JSON object{}", parsed.error(), excerpt(text), advice));
}

}  // namespace

Result<Json> parse_json_row(std::string_view text, const RowOrigin& origin) {
  static thread_local simdjson::dom::parser parser;
  simdjson::dom::element root;
  auto status = parser.parse(text.data(), text.size(), false).get(root);
  if (status != simdjson::SUCCESS)
    if (auto problem = encoding_problem(text); !problem.empty()) return row_error(RowProblem::encoding, origin.str(), problem);
  Json fields;
  if (status == simdjson::SUCCESS) {
    if (auto refusal = convert(root, fields, 1)) return row_error(refusal->problem, origin.str(), refusal->details);
  } else {
    auto parsed = parse_slowly(text, origin);
    if (!parsed) return parsed;
    fields = std::move(parsed).value();
  }
  if (fields.is_object()) return fields;
  return row_error(RowProblem::type, origin.str(),
                   fmt::format("the row is of type {}; expected a JSON object", fields.type_name()));
}

}  // namespace hone::data
