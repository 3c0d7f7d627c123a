#include "hone/tinker/twinkle/preprocessors.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "hone/base/strings/replace_all.h"
#include "hone/tinker/wire/json_fields.h"

namespace hone::tinker {
namespace {

Json message(const char* role, const std::string& content) { return {{"role", role}, {"content", content}}; }

std::string column(const Json& row, const char* name) { return required_text(row, name); }

Json competition_math(const Json&, const Json& row) {
  return {{"messages", {message("user", column(row, "problem")), message("assistant", column(row, "solution"))}}};
}

Json competition_math_grpo(const Json&, const Json& row) {
  constexpr const char* kSystem =
      "You are a helpful math assistant. Respond with only the final answer in the form \\boxed{...} and nothing else.";
  return {{"messages", {message("system", kSystem), message("user", column(row, "problem")), message("assistant", "")}},
          {"user_data", Json::array({Json::array({"solution", column(row, "solution")})})}};
}

Json self_cognition(const Json& args, const Json& row) {
  const auto name = text_field(args, "model_name", "twinkle robot"), author = text_field(args, "model_author", "twinkle lab");
  const auto filled = [&](const char* field) {
    return replace_all(replace_all(column(row, field), "{{NAME}}", name), "{{AUTHOR}}", author);
  };
  return {{"messages",
           {message("system", "You are a helpful assistant."), message("user", filled("query")),
            message("assistant", filled("response"))}}};
}

Json alpaca(const Json&, const Json& row) {
  const auto instruction = text_field(row, "instruction", ""), input = text_field(row, "input", "");
  return {{"messages",
           {message("user", input.empty() ? instruction : instruction + "\n" + input),
            message("assistant", text_field(row, "output", ""))}}};
}

// The number after the last ####.
std::string gsm8k_truth(const std::string& answer) {
  auto at = answer.find("####");
  if (at == answer.npos) return "";
  at = answer.find_first_not_of(" \t\r\n", at + 4);
  if (at == answer.npos) return "";
  const auto end = std::min(answer.find_first_not_of("-0123456789,.", at), answer.size());
  return replace_all(answer.substr(at, end - at), ",", "");
}

Json gsm8k(const Json& args, const Json& row) {
  constexpr const char* kSystem =
      "You are a helpful math assistant. Solve the problem step by step and put your final answer within \\boxed{}.";
  const auto answer = text_field(row, "answer", "");
  Json messages = {message("system", text_field(args, "system", kSystem)), message("user", column(row, "question"))};
  if (flag_field(args, "add_assistant", false)) messages.push_back(message("assistant", answer));
  return {{"messages", messages}, {"user_data", Json::array({Json::array({"ground_truth", gsm8k_truth(answer)})})}};
}

using Preprocess = Json (*)(const Json& args, const Json& row);
struct Known {
  Preprocess preprocess;
  std::vector<std::string> args;
};
const std::map<std::string, Known>& known_preprocessors() {
  static const std::map<std::string, Known> known = {
      {"CompetitionMathProcessor", {competition_math, {}}},
      {"CompetitionMathGRPOProcessor", {competition_math_grpo, {}}},
      {"SelfCognitionProcessor", {self_cognition, {"model_name", "model_author"}}},
      {"AlpacaProcessor", {alpaca, {}}},
      {"GSM8KProcessor", {gsm8k, {"system", "add_assistant"}}},
  };
  return known;
}

}  // namespace

Json preprocessed(const std::string& name, const Json& init_args, const Json& row) {
  const auto& known = known_preprocessors();
  const auto found = known.find(name);
  if (found == known.end()) {
    std::string names;
    for (const auto& [each, what] : known) names += (names.empty() ? "" : ", ") + each;
    throw RequestError(fmt::format("the preprocessor {} is not supported by this server; expected one of {}", name, names));
  }
  for (const auto& [argument, value] : init_args.items())
    if (std::ranges::find(found->second.args, argument) == found->second.args.end())
      throw RequestError(fmt::format("{} has no argument {}", name, argument));
  return found->second.preprocess(init_args, row);
}

}  // namespace hone::tinker
