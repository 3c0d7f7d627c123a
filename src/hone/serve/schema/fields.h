// Every field of a request: one table for the parser, its error messages, /openapi.json, the documentation and the tests.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "hone/base/json.h"

namespace hone::serve {

using Endpoints = uint32_t;
enum Endpoint : Endpoints {
  kChat = 1u << 0,
  kCompletion = 1u << 1,
  kEmbedding = 1u << 2,
  kMessages = 1u << 3,  // Anthropic's
  kTokenize = 1u << 4,
  kDetokenize = 1u << 5,
  kLoadAdapter = 1u << 6,
  kUnloadAdapter = 1u << 7,
  kInfer = 1u << 8,  // ms-swift's
  kClassify = 1u << 9,
  kRerank = 1u << 10,
  kScorePairs = 1u << 11,
  kResponse = 1u << 12,    // OpenAI's newer interface
  kScoreTexts = 1u << 13,  // LLaMA-Factory's, of reward models
  kRollouts = 1u << 14,    // of a trainer
};
inline constexpr Endpoints kOpenAi = kChat | kCompletion;
inline constexpr Endpoints kGenerates = kOpenAi | kMessages;
inline constexpr Endpoints kSamples = kOpenAi | kResponse;
std::string_view path_of(Endpoint endpoint);

// For texts that are only counted or tokenized, which have no context limit.
inline constexpr size_t kMostTokenizedBytes = 2u << 20;

enum class FieldKind { flag, integer, real, text, list, object, text_or_list, text_or_object, text_or_flag, any };

struct Field {
  std::string_view name;
  Endpoints endpoints;
  FieldKind kind;
  double low, high;           // of numbers; bytes of a text, items of a list, keys of an object
  std::string_view fallback;  // as documented; "" is none
  std::string_view help;
  std::string_view no_effect;  // why giving it changes nothing; "" when it does something
  bool required = false;
};

std::span<const Field> field_table();
// The type of a field in words, for errors and docs/.
std::string allowed_values(const Field& field);
const Field* find_field(Endpoint endpoint, std::string_view name);

// A body whose fields are all known, typed and within their limits. null counts as absent, as clients mean it.
class Fields {
 public:
  // Throws ApiError(400) naming the field, what was found and what is allowed.
  Fields(Endpoint endpoint, const Json& body);

  bool has(std::string_view name) const { return find(name) != nullptr; }
  bool flag(std::string_view name, bool fallback) const;
  int64_t integer(std::string_view name, int64_t fallback) const;
  double real(std::string_view name, double fallback) const;
  std::string text(std::string_view name, std::string_view fallback = "") const;
  const Json& json(std::string_view name) const;  // null when absent
  // One text or several.
  std::vector<std::string> texts(std::string_view name, size_t most, size_t most_bytes) const;

 private:
  const Json* find(std::string_view name) const;
  Endpoint endpoint_;
  const Json& body_;
};

// For nested values, whose limits depend on their meaning: ApiError(400) about `where`, e.g. "messages[2].role".
[[noreturn]] void bad_value(const std::string& where, const std::string& message);
// Null if the object has no such member.
const Json& member(const Json& object, const char* name);
// The text that `object`, which is at `where`, has under this name; anything else is a bad value.
std::string text_field(const Json& object, const char* name, const std::string& where);
std::string kind_name(const Json& value);  // "a number", "null" …

// The table as Markdown, and as the paths of an OpenAPI document.
std::string field_markdown();
Json openapi_document(const std::string& title, const std::string& version);

}  // namespace hone::serve
