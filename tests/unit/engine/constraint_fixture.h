// Constraints over single bytes, and whether they let a text through.
#pragma once
#include "engine/fixture.h"
#include "hone/engine/constraints/compiler.h"

namespace hone::engine {

inline const ConstraintCompiler& compiler() {
  static auto tokenizer = byte_tokenizer();
  static const ConstraintCompiler made(*tokenizer, {kEnd});
  return made;
}

// Whether the bytes of `text` and then the end are allowed one after the other.
inline bool allows(const Constraint& constraint, std::string_view text) {
  auto state = Constraint::kStart;
  for (char byte : text) {
    auto token = static_cast<text::TokenId>(static_cast<unsigned char>(byte));
    if (!constraint.mask(state)->allows(token)) return false;
    state = constraint.next(state, token);
  }
  return constraint.mask(state)->allows(kEnd);
}

inline std::shared_ptr<const Constraint> regex(std::string_view pattern) {
  return compiler().regex(pattern).or_throw(ExitCode::failure, "regex");
}
inline std::shared_ptr<const Constraint> schema(std::string_view text) {
  return compiler().json_schema(Json::parse(text)).or_throw(ExitCode::failure, "schema");
}
// Why a schema is refused; "" when it is not.
inline std::string refusal(const Json& schema) {
  auto made = compiler().json_schema(schema);
  return made ? "" : made.error();
}

}  // namespace hone::engine
