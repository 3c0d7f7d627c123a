#include "hone/data/datasets/self_cognition.h"

#include <algorithm>

#include "hone/base/log.h"
#include "hone/base/strings/replace_all.h"

namespace hone::data {
namespace {

constexpr const char* kEmptyReasoning = "<think>\n\n</think>\n\n";

class SelfCognitionRows : public RowReader {
 public:
  SelfCognitionRows(std::vector<std::string> name, std::vector<std::string> author, const std::string& variant)
      : name_(std::move(name)),
        author_(std::move(author)),
        query_suffix_(variant == "qwen3" ? " /no_think" : ""),
        response_prefix_(variant == "default" ? "" : kEmptyReasoning) {}

  int64_t size() const override { return static_cast<int64_t>(self_cognition_rows().size()); }
  Result<Row> at(int64_t index) const override {
    const auto& row = self_cognition_rows()[static_cast<size_t>(index)];
    size_t language = row.language == std::string_view("zh") ? 0 : 1;
    Json fields = {{"query", filled(row.query, language) + query_suffix_},
                   {"response", response_prefix_ + filled(row.response, language)}};
    return Row{std::move(fields), RowOrigin{"self-cognition", index + 1, ""}};
  }

 private:
  std::string filled(std::string text, size_t language) const {
    if (!name_.empty()) text = replace_all(std::move(text), "{{NAME}}", name_[std::min(language, name_.size() - 1)]);
    if (!author_.empty()) text = replace_all(std::move(text), "{{AUTHOR}}", author_[std::min(language, author_.size() - 1)]);
    return text;
  }
  std::vector<std::string> name_, author_;
  std::string query_suffix_, response_prefix_;
};

}  // namespace

bool is_self_cognition(const std::string& word) {
  return word == "self-cognition" || word == "swift/self-cognition" || word == "modelscope/self-cognition" || word == "identity";
}

std::unique_ptr<RowReader> open_self_cognition(const std::vector<std::string>& name, const std::vector<std::string>& author,
                                               const std::string& variant) {
  if (variant != "default" && variant != "qwen3" && variant != "empty_think")
    throw UserError(ExitCode::usage, fmt::format("self-cognition has no subset \"{}\"", variant),
                    "expected default, qwen3 or empty_think");
  if (name.empty() || author.empty())
    log::warn_once("self-cognition: give `model_name` and `model_author`, or the model learns the words {{NAME}} and {{AUTHOR}}");
  return std::make_unique<SelfCognitionRows>(name, author, variant);
}

}  // namespace hone::data
