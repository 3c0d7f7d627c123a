// Post-processing of responses before scoring: lm-evaluation-harness's filters, by name.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "hone/base/json.h"

namespace hone::eval {

// Maps the responses to one document. Most are text; `map` may return anything.
using Answers = std::vector<Json>;
using Filter = std::function<Answers(Answers answers, const Json& document)>;

struct FilterPipeline {
  std::string name;
  std::vector<Filter> steps;
  Answers apply(Answers answers, const Json& document) const;
};

// {"function": "regex", "regex_pattern": …}. Throws UserError(bad_data) for an unknown filter.
Filter make_filter(const Json& settings, const std::string& where);

}  // namespace hone::eval
