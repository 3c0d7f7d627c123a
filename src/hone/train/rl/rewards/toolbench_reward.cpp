// ms-swift's reward toolbench: whether a ReAct completion calls the tool of the solution with the same input.
#include <algorithm>
#include <set>

#include "hone/base/strings/trimmed.h"
#include "hone/train/rl/rewards/reward.h"
#include "hone/train/rl/rewards/words.h"

namespace hone::train::rl {
namespace {

constexpr double kSimilarText = 0.2;  // ROUGE-L of inputs that are not JSON

struct ToolCallText {
  std::string action = "none", input = "{}";
};

ToolCallText named_call(const std::string& text) {
  constexpr std::string_view kAction = "Action:", kInput = "Action Input:";
  ToolCallText call;
  if (const auto at = text.rfind(kInput); at != text.npos) call.input = trimmed(text.substr(at + kInput.size()));
  if (const auto at = text.rfind(kAction); at != text.npos) {
    const auto rest = text.substr(at + kAction.size());
    call.action = trimmed(rest.substr(0, rest.find(kInput)));
  }
  return call;
}

// Without text of the engine or the template after the call.
std::string without_end(std::string text) {
  constexpr std::string_view kObservation = "Observation:";
  if (text.ends_with(kObservation)) text = trimmed(text.substr(0, text.find(kObservation)));
  for (std::string_view token : {"<|endoftext|>", "<|im_end|>"})
    for (auto at = text.find(token); at != text.npos; at = text.find(token)) text.erase(at, token.size());
  return trimmed(text);
}

std::vector<std::vector<std::string>> sentences_of(const std::string& text) {
  std::vector<std::vector<std::string>> sentences;
  for (size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find('.', begin), text.size());
    if (end > begin) sentences.push_back(split_words(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return sentences;
}

// The words of a longest common subsequence, for which the whole table is kept; nlg_metrics.cpp needs only its length.
std::set<std::string> common_words(const std::vector<std::string>& one, const std::vector<std::string>& other) {
  const auto width = other.size() + 1;
  std::vector<int32_t> longest((one.size() + 1) * width);
  for (size_t i = 1; i <= one.size(); ++i)
    for (size_t j = 1; j <= other.size(); ++j)
      longest[i * width + j] = one[i - 1] == other[j - 1] ? longest[(i - 1) * width + j - 1] + 1
                                                          : std::max(longest[(i - 1) * width + j], longest[i * width + j - 1]);
  std::set<std::string> words;
  for (size_t i = one.size(), j = other.size(); i > 0 && j > 0;) {
    if (one[i - 1] == other[j - 1]) {
      words.insert(one[i - 1]);
      --i, --j;
    } else if (longest[(i - 1) * width + j] > longest[i * width + j - 1]) {
      --i;
    } else {
      --j;
    }
  }
  return words;
}

// ROUGE-L over distinct words, as the package rouge computes it for ms-swift.
double rouge_l_of_distinct_words(const std::string& one, const std::string& other) {
  const auto first = sentences_of(one), second = sentences_of(other);
  std::set<std::string> first_words, second_words, common;
  for (const auto& sentence : first) first_words.insert(sentence.begin(), sentence.end());
  for (const auto& sentence : second) second_words.insert(sentence.begin(), sentence.end());
  if (first_words.empty() || second_words.empty()) return 0;
  for (const auto& a : second)
    for (const auto& b : first) common.merge(common_words(a, b));
  const auto count = static_cast<double>(common.size());
  const auto recall = count / static_cast<double>(second_words.size()),
             precision = count / static_cast<double>(first_words.size());
  return 2 * precision * recall / (precision + recall + 1e-8);
}

bool same_input(const std::string& found, const std::string& wanted) {
  const auto found_json = parse_json(found), wanted_json = parse_json(wanted);
  if (found_json.ok() != wanted_json.ok()) return false;
  if (!found_json) return rouge_l_of_distinct_words(wanted, found) >= kSimilarText;
  return found_json->is_object() && wanted_json->is_object() && sorted_by_key(*found_json) == sorted_by_key(*wanted_json);
}

class ToolbenchReward final : public Reward {
 public:
  std::string name() const override { return "ReactORM"; }
  std::vector<std::string> required_columns() const override { return {"solution"}; }

  std::vector<double> score(const std::vector<RewardInput>& completions) override {
    std::vector<double> scores;
    for (const auto& completion : completions) {
      const auto wanted = named_call(column_text(completion, "solution", "toolbench")),
                 found = named_call(without_end(completion.text));
      scores.push_back(found.action == wanted.action && same_input(found.input, wanted.input) ? 1 : 0);
    }
    return scores;
  }
};

}  // namespace

std::unique_ptr<Reward> make_toolbench_reward() { return std::make_unique<ToolbenchReward>(); }

}  // namespace hone::train::rl
