// What is made of an answer before it is compared: lm-evaluation-harness's filters, by their names.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "hone/base/json.h"

namespace hone::eval {

// Answers to one document in, answers out. Most are text; `map` may give anything.
using Answers = std::vector<Json>;
using Filter = std::function<Answers(Answers answers, const Json& document)>;

struct FilterPipeline {
  std::string name;
  std::vector<Filter> steps;
  Answers apply(Answers answers, const Json& document) const;
};

// {"function": "regex", "regex_pattern": …}. Throws UserError(bad_data) for a filter that is not known.
Filter make_filter(const Json& settings, const std::string& where);

}  // namespace hone::eval
