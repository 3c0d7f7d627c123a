// Post-processors: the special tokens around a text.
#pragma once
#include <vector>

#include "hone/base/json.h"
#include "hone/text/tokenizer.h"

namespace hone::text::tokenizer {

// A template of fixed ids and slots for the text's own ids.
struct TemplatePart {
  bool text = false;  // the text's ids go here
  std::vector<TokenId> ids;
};
using Template = std::vector<TemplatePart>;

class PostProcessor {
 public:
  static Result<PostProcessor> make(const Json& json);  // a JSON null adds nothing
  static PostProcessor surrounding(std::vector<TokenId> before, std::vector<TokenId> after);

  // Works on the ids from `start` on.
  void apply(std::vector<TokenId>& ids, size_t start, bool add_special_tokens) const;
  bool adds_anything() const { return !templates_.empty(); }

 private:
  std::vector<Template> templates_;  // applied one after the other
};

}  // namespace hone::text::tokenizer
