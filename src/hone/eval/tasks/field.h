// A field of a task applied to a document: a column name, a Jinja template, a number or a list.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/base/json.h"
#include "hone/text/chat_template.h"

namespace hone::eval {

class Field {
 public:
  Field() = default;  // nothing
  // `where` names the file and the key in messages. Throws UserError(bad_data) for other values.
  Field(const Json& written, std::string where);

  bool is_set() const { return !written_.is_null(); }
  // The column's value, the rendered text, or the number or list itself. Throws UserError(bad_data) naming the field.
  Json value(const Json& document) const;
  // The semantics of doc_to_target: a number if the text is one and there are choices, a list if the text is one.
  Json target(const Json& document, bool has_choices) const;
  // The semantics of doc_to_choice: a list of texts.
  std::vector<std::string> choices(const Json& document) const;
  // value() that must be text.
  std::string text(const Json& document) const;

 private:
  [[noreturn]] void fail(const std::string& found) const;

  Json written_;
  std::string where_;
  std::optional<text::ChatTemplate> template_;
};

}  // namespace hone::eval
