#include "hone/eval/tasks/field.h"

#include <fmt/ranges.h>

#include <charconv>

#include "hone/data/formats/python_literal.h"

namespace hone::eval {
namespace {

// The jinja2 environment of lm-evaluation-harness.
constexpr text::TemplateSyntax kTaskSyntax{
    .trim_blocks = false, .lstrip_blocks = false, .keep_trailing_newline = true, .strict_undefined = true};

std::string columns_of(const Json& document) {
  std::vector<std::string> names;
  for (const auto& [name, value] : document.items()) names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

bool is_digits(const std::string& text) { return !text.empty() && text.find_first_not_of("0123456789") == text.npos; }

}  // namespace

Field::Field(const Json& written, std::string where) : written_(written), where_(std::move(where)) {
  if (written_.is_object() && written_.contains("!function"))
    throw UserError(ExitCode::bad_data, fmt::format("{} is the Python function {}", where_, written_["!function"].dump()),
                    "hone runs no Python for tasks: write it as a Jinja template, or prepare the rows before");
  if (!written_.is_string()) return;
  template_ = text::ChatTemplate::parse(written_.get<std::string>(), {}, kTaskSyntax).or_throw(ExitCode::bad_data, where_);
}

void Field::fail(const std::string& found) const { throw UserError(ExitCode::bad_data, fmt::format("{}: {}", where_, found)); }

Json Field::value(const Json& document) const {
  if (!template_) return written_;
  if (auto column = document.find(written_.get_ref<const std::string&>()); column != document.end()) return *column;
  auto rendered = template_->render(document);
  if (!rendered)
    fail(rendered.error().ends_with("is undefined") ? rendered.error() + "; columns: " + columns_of(document) : rendered.error());
  return std::move(rendered->text);
}

Json Field::target(const Json& document, bool has_choices) const {
  auto found = value(document);
  bool column = template_ && document.contains(written_.get_ref<const std::string&>());
  if (!found.is_string() || column) return found;
  const auto& text = found.get_ref<const std::string&>();
  if (int64_t index = 0;
      has_choices && is_digits(text) && std::from_chars(text.data(), text.data() + text.size(), index).ec == std::errc())
    return index;
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']')
    if (auto list = data::parse_python_literal(text)) return std::move(*list);
  return found;
}

std::vector<std::string> Field::choices(const Json& document) const {
  auto found = value(document);
  if (found.is_string()) {
    auto list = data::parse_python_literal(found.get_ref<const std::string&>());
    if (!list)
      fail(fmt::format("found {}; expected a list of choices", found.dump(-1, ' ', false, Json::error_handler_t::replace)));
    found = std::move(*list);
  }
  std::vector<std::string> texts;
  for (const auto& choice : found) {  // for an object, its values
    if (!choice.is_string()) fail(fmt::format("the choice {} is not text", choice.dump()));
    texts.push_back(choice.get<std::string>());
  }
  if (texts.empty()) fail("there are no choices");
  return texts;
}

std::string Field::text(const Json& document) const {
  auto found = value(document);
  if (!found.is_string()) fail(fmt::format("found {}; expected text", found.dump()));
  return found.get<std::string>();
}

}  // namespace hone::eval
