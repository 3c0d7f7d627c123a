#include "hone/train/rl/turns/tool_calls.h"

#include "hone/base/strings/trimmed.h"
#include "hone/text/templates/agent_format.h"

namespace hone::train::rl {
namespace {

Toolbox::Call read_call(std::string_view text) {
  Toolbox::Call call;
  try {
    auto read = text::parse_tool_call(trimmed(text));
    if (read.arguments.is_object())
      call.request = {std::move(read.name), std::move(read.arguments)};
    else
      call.malformed = "the arguments of a call are not a JSON object";
  } catch (const text::FormatError& problem) {
    call.malformed = problem.what();
  } catch (const Json::exception& problem) {
    call.malformed = problem.what();
  }
  return call;
}

}  // namespace

std::vector<Toolbox::Call> hermes_calls(std::string_view text) {
  constexpr std::string_view kOpen = "<tool_call>", kClose = "</tool_call>";
  std::vector<Toolbox::Call> calls;
  for (auto open = text.find(kOpen); open != text.npos && calls.size() < kMostCalls; open = text.find(kOpen, open)) {
    open += kOpen.size();
    const auto close = std::min(text.find(kClose, open), text.size());
    calls.push_back(read_call(text.substr(open, close - open)));
    open = close;
  }
  return calls;
}

std::vector<Toolbox::Call> react_calls(std::string_view text) {
  constexpr std::string_view kAction = "Action:", kInput = "Action Input:", kObservation = "Observation:",
                             kFinal = "Final Answer:";
  const auto input = text.rfind(kInput);
  if (input == text.npos || text.find(kFinal, input) != text.npos) return {};
  const auto action = text.rfind(kAction, input > 0 ? input - 1 : 0);
  if (action == text.npos || action >= input) return {};
  Toolbox::Call call;
  call.request.name = trimmed(text.substr(action + kAction.size(), input - action - kAction.size()));
  auto given = text.substr(input + kInput.size());
  given = given.substr(0, given.find(kObservation));
  auto arguments = parse_json(trimmed(given));
  if (arguments && arguments->is_object())
    call.request.arguments = std::move(*arguments);
  else
    call.malformed = "the action's input is not a JSON object";
  return {call};
}

}  // namespace hone::train::rl
