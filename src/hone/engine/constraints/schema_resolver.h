// Resolves a schema's references and "allOf". Internal to this folder.
#pragma once
#include <string>

#include "hone/base/json.h"

namespace hone::engine {

bool is_annotation(const std::string& keyword);  // does not change what a schema accepts
bool only_annotations(const Json& schema);
void refuse_unknown_keywords(
    const Json& schema);  // throws UnsupportedSchema, as all here do, naming the first that is not followed
const Json& schema_list(const Json& schema, const char* keyword);  // its value, which must be a list that is not empty

class SchemaResolver {
 public:
  explicit SchemaResolver(const Json& root) : root_(root) {}

  // The target of references that have only annotations next to them.
  const Json& followed(const Json& schema);
  // The same schema without "$ref" and "allOf" (those of its parts stay).
  Json flattened(const Json& schema) { return flattened(schema, 0); }
  // A schema that accepts what both accept; neither has "$ref" or "allOf". Common keywords must be equal or combinable.
  Json merged(const Json& one, const Json& other);

  Json without(const Json& schema, std::string_view keyword);  // nor annotations

  // Bounds the steps of reading a schema, however often parts are repeated.
  void spend(size_t steps);
  void spend_bytes(size_t bytes);  // for what is read or written that long

 private:
  Json flattened(const Json& schema, int hops);
  Json extended(Json all, const Json& part);
  const Json& resolved(const Json& reference) const;

  const Json& root_;
  size_t spent_ = 0;
};

// A text that is the same exactly for values that JSON Schema calls equal: 1 and 1.0, objects in another order.
std::string canonical(const Json& value);

}  // namespace hone::engine
