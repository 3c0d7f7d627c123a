#include "hone/parallel/pipeline/layout_string.h"

#include <charconv>
#include <string>

#include "hone/base/error.h"

namespace hone::parallel {
namespace {

constexpr size_t kLongest = 100'000;  // letters, once repetitions are written out

class LayoutString {
 public:
  explicit LayoutString(std::string_view text) : text_(text) {}

  std::vector<int64_t> blocks() {
    const auto letters = sequence(/*inside=*/false);
    if (letters.empty() || letters.front() != 'E') refuse("it does not begin with E, the embedding");
    if (letters.back() != 'L') refuse("it does not end with L, the loss");
    std::vector<int64_t> sizes{0};
    for (size_t i = 1; i + 1 < letters.size(); ++i) {
      if (letters[i] == '|')
        sizes.push_back(0);
      else if (letters[i] == 't')
        ++sizes.back();
      else
        refuse(letters[i] == 'm' ? "m, a block that predicts several tokens, is not in this version"
                                 : "E is at the beginning and L at the end");
    }
    return sizes;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw UserError(ExitCode::usage, fmt::format("`pipeline_model_parallel_layout` \"{}\": {}", text_.substr(0, 200), what),
                    "E is the embedding, t a block, L the loss, | begins the next stage, *n repeats: \"Et*3|(tttt|)*2tL\"");
  }

  // Letters and groups up to the end or a closing parenthesis, with repetitions written out.
  std::string sequence(bool inside) {
    std::string letters;
    while (place_ < text_.size() && text_[place_] != ')') {
      const char c = text_[place_++];
      if (c == ',' || c == ' ') continue;
      std::string part(1, c);
      if (c == '(') {
        if (inside) refuse("parentheses inside parentheses");
        part = sequence(/*inside=*/true);
        if (place_ == text_.size()) refuse("a parenthesis is not closed");
        ++place_;
      } else if (std::string_view("EtmL|").find(c) == std::string_view::npos) {
        refuse(fmt::format("\"{}\" has no meaning", c));
      }
      const size_t count = repetitions();
      if (letters.size() + part.size() * count > kLongest) refuse("it is too long");
      for (size_t i = 0; i < count; ++i) letters += part;
    }
    if (!inside && place_ < text_.size()) refuse("a parenthesis that was not opened");
    return letters;
  }

  size_t repetitions() {
    if (place_ == text_.size() || text_[place_] != '*') return 1;
    size_t count = 0;
    const auto [end, status] = std::from_chars(text_.data() + place_ + 1, text_.data() + text_.size(), count);
    if (status != std::errc() || count == 0 || count > kLongest) refuse("* is not followed by a number of at least 1");
    place_ = static_cast<size_t>(end - text_.data());
    return count;
  }

  std::string_view text_;
  size_t place_ = 0;
};

}  // namespace

std::vector<int64_t> parse_pipeline_layout(std::string_view text) { return LayoutString(text).blocks(); }

}  // namespace hone::parallel
