// The share of a row's test cases that the program in a completion passes, run in the sandbox.
#include <algorithm>
#include <map>

#include "hone/base/log.h"
#include "hone/base/strings/counted.h"
#include "hone/base/strings/trimmed.h"
#include "hone/base/thread_pool.h"
#include "hone/base/usable_cores.h"
#include "hone/data/row_report.h"
#include "hone/train/loop/stop_signal.h"
#include "hone/train/rl/rewards/reward.h"

namespace hone::train::rl {
namespace {

// The content of the last Python or unlabeled code fence.
std::optional<std::string> program_in(const std::string& text) {
  std::optional<std::string> program;
  for (size_t open = text.find("```"); open != text.npos;) {
    const auto line = text.find('\n', open);
    const auto close = line == text.npos ? text.npos : text.find("```", line);
    if (close == text.npos) break;
    const auto language = trimmed(std::string_view(text).substr(open + 3, line - open - 3));
    if (language.empty() || language == "python" || language == "py" || language == "python3")
      program = text.substr(line + 1, close - line - 1);
    open = text.find("```", close + 3);
  }
  return program;
}

struct TestCase {
  std::string input, output;  // its input and expected output …
  std::string check;          // … or statements after the program that must not fail
};

Json parsed_column(const Json& columns, const char* name) {
  auto value = columns.is_object() ? columns.value(name, Json()) : Json();
  if (!value.is_string()) return value;
  auto read = parse_json(value.get_ref<const std::string&>());
  return read ? *read : Json();
}

// The column test_cases, or the one in verification_info, which datasets for open-r1 have.
Result<std::vector<TestCase>> cases_of(const data::Conversation& row) {
  const auto wrong = [&](data::RowProblem kind, const std::string& found) {
    return data::row_error(kind, row.origin.str(),
                           found +
                               "; expected a column test_cases: a list of {\"input\", \"output\"}, or of statements such as "
                               "\"assert f(1) == 2\" (docs/reinforcement.md)");
  };
  auto list = parsed_column(row.extra, "test_cases");
  if (list.is_null()) list = parsed_column(parsed_column(row.extra, "verification_info"), "test_cases");
  if (!list.is_array() || list.empty())
    return wrong(data::RowProblem::columns, "the row has no test cases, which the reward code runs");
  std::vector<TestCase> cases;
  for (const auto& one : list) {
    if (one.is_string()) {
      cases.push_back({"", "", one.get<std::string>()});
      continue;
    }
    for (const char* key : {"input", "output"})
      if (!one.is_object() || !one.value(key, Json()).is_string())
        return wrong(data::RowProblem::type, fmt::format("a test case without the text \"{}\"", key));
    cases.push_back({one["input"].get<std::string>(), one["output"].get<std::string>(), ""});
  }
  return cases;
}

// As in open-r1: line by line, ignoring surrounding white space.
bool same_lines(const std::string& one, const std::string& other) {
  const auto lines = [](const std::string& text) {
    std::vector<std::string> all;
    const auto whole = trimmed(text);
    for (size_t at = 0; at <= whole.size();) {
      const auto end = std::min(whole.find('\n', at), whole.size());
      all.push_back(trimmed(std::string_view(whole).substr(at, end - at)));
      at = end + 1;
    }
    return all;
  };
  return lines(one) == lines(other);
}

class CodeReward final : public Reward {
 public:
  explicit CodeReward(const SandboxConfig& config) : config_(config) {}
  std::string name() const override { return "Code"; }

  std::vector<double> score(const std::vector<RewardInput>& completions) override {
    struct Pending {
      size_t completion;
      TestCase test;
      std::future<ProgramResult> result;
    };
    std::vector<double> scores(completions.size(), 0);
    std::vector<size_t> totals(completions.size(), 0);
    std::vector<Pending> pending;
    ThreadPool pool(static_cast<size_t>(usable_cores()));
    for (size_t i = 0; i < completions.size(); ++i) {
      auto read = cases_of(*completions[i].question);
      if (!read) throw UserError(ExitCode::bad_data, read.error());
      auto cases = std::move(*read);
      totals[i] = cases.size();
      const auto program = program_in(completions[i].text);
      if (!program) continue;
      for (auto& test : cases) {
        auto job = [this, program = *program, test] {
          const auto stopped = [] { return StopSignal::requested() != Stop::none; };
          return test.check.empty() ? run_in_sandbox(program, test.input, config_, stopped)
                                    : run_checks_in_sandbox(program, test.check, config_, stopped);
        };
        pending.push_back({i, std::move(test), pool.submit(std::move(job))});
      }
    }
    std::map<std::string, int64_t> ends;
    for (auto& one : pending) one.result.wait();
    if (StopSignal::requested() != Stop::none) throw StopBetweenSteps();
    for (auto& one : pending) {
      const auto result = one.result.get();
      const bool ran = result.end == ProgramResult::End::finished;
      const bool passed = ran && (!one.test.check.empty() || same_lines(result.output, one.test.output));
      if (passed) ++scores[one.completion];
      ++ends[passed ? "passed" : ran ? "gave another result" : result.why.substr(0, 120)];
    }
    for (size_t i = 0; i < scores.size(); ++i) scores[i] /= static_cast<double>(totals[i]);
    report(ends, pending.size());
    return scores;
  }

 private:
  static void report(const std::map<std::string, int64_t>& ends, size_t programs) {
    constexpr size_t kMost = 6;  // failure kinds that are reported
    if (programs == 0) return;
    std::vector<std::string> parts;
    for (const auto& [end, count] : ends)
      if (parts.size() < kMost) parts.push_back(fmt::format("{} {}", count, end));
    if (ends.size() > kMost) parts.push_back("…");
    log::info("the reward code ran {}: {}", counted(programs, "program"), fmt::join(parts, "; "));
  }

  SandboxConfig config_;
};

}  // namespace

std::optional<Error> problem_of_test_cases(const data::Conversation& row) {
  auto cases = cases_of(row);
  return cases ? std::nullopt : std::optional(Error{cases.error()});
}

std::unique_ptr<Reward> make_code_reward(const SandboxConfig& config) {
  if (!config.enabled)
    throw UserError(ExitCode::usage, "the reward code runs programs that a model wrote",
                    "to allow it in a sandbox, set `code_sandbox` bubblewrap (docs/reinforcement.md)");
  require_sandbox();
  return std::make_unique<CodeReward>(config);
}

}  // namespace hone::train::rl
