// Rewards by name, as --reward_funcs has them.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "hone/train/rl/rewards/reward.h"
#include "objects.h"

namespace hone::python {
namespace {

// A list of scores for each name; NaN where a reward has nothing to say.
std::vector<std::vector<double>> score(const std::vector<std::string>& names, const std::vector<std::string>& texts,
                                       const std::vector<std::string>& rows, const std::vector<int64_t>& tokens,
                                       int64_t max_completion_length) {
  HONE_CHECK(texts.size() == rows.size() && texts.size() == tokens.size(), "lists of different lengths");
  train::rl::RewardConfig config;
  config.functions = names;
  config.max_completion_length = max_completion_length;
  std::vector<data::Conversation> questions(rows.size());
  std::vector<train::rl::RewardInput> answers(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    questions[i].extra = Json::parse(rows[i]);
    questions[i].origin = {"rows", static_cast<int64_t>(i) + 1, "rows"};
    answers[i] = {.question = &questions[i], .text = texts[i], .tokens = tokens[i]};
  }
  std::vector<std::vector<double>> all;
  for (const auto& reward : train::rl::make_rewards(config)) all.push_back(reward->score(answers));
  return all;
}

}  // namespace

void bind_rewards(nb::module_& m) {
  m.def(
      "score",
      [](const std::vector<std::string>& names, const std::vector<std::string>& texts, const std::vector<std::string>& rows,
         const std::vector<int64_t>& tokens, int64_t max_completion_length) {
        return without_gil([&] { return score(names, texts, rows, tokens, max_completion_length); });
      },
      nb::arg("names"), nb::arg("texts"), nb::arg("rows"), nb::arg("tokens"), nb::arg("max_completion_length"));
}

}  // namespace hone::python
