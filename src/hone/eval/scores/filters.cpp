#include "hone/eval/scores/filters.h"

#include <algorithm>
#include <map>
#include <memory>

#include "hone/text/jinja/unicode.h"
#include "hone/text/python_regex.h"

namespace hone::eval {
namespace {

using text::PythonRegex;

std::string stripped(std::string_view text) { return std::string(text::jinja::strip_space(text, text::jinja::Side::both)); }

PythonRegex compiled(const std::string& pattern, const std::string& where) {
  return PythonRegex::compile(pattern).or_throw(ExitCode::bad_data, where);
}

// Python's findall()[which]: the group, the first non-empty one of several groups, or the whole match.
std::optional<std::string> selected(const PythonRegex& regex, const std::string& text, int64_t which) {
  auto matches = regex.find_all(text);
  auto count = static_cast<int64_t>(matches.size());
  if (which < 0) which += count;
  if (count == 0) return std::nullopt;
  if (which < 0 || which >= count) return std::nullopt;
  const auto& match = matches[static_cast<size_t>(which)];
  if (match.size() <= 2) return stripped(match.back().value_or(""));
  for (size_t i = 1; i < match.size(); ++i)
    if (match[i] && !match[i]->empty()) return stripped(*match[i]);
  return std::nullopt;
}

Filter each_text(std::function<Json(const std::string&)> change) {
  return [change](Answers answers, const Json&) {
    for (auto& answer : answers) answer = change(answer.is_string() ? answer.get<std::string>() : std::string());
    return answers;
  };
}

Filter regex_filter(const Json& settings, const std::string& where) {
  auto regex = compiled(settings.value("regex_pattern", R"(#### (\-?[0-9\.\,]+))"), where);
  auto which = settings.value("group_select", int64_t{0});
  auto fallback = settings.value("fallback", std::string("[invalid]"));
  return each_text([=](const std::string& text) -> Json { return selected(regex, text, which).value_or(fallback); });
}

// Multiple-choice letters: by the pattern, else by a choice spelled out in the answer, else by a letter after a colon.
Filter choice_filter(const Json& settings, const std::string& where) {
  auto regex = compiled(settings.value("regex_pattern", R"(#### (\-?[0-9\.\,]+))"), where);
  auto which = settings.value("group_select", int64_t{0});
  auto fallback = settings.value("fallback", std::string("[invalid]"));
  bool lower = settings.value("ignore_case", false);
  std::vector<PythonRegex> ignored;
  for (const auto& pattern : settings.value("regexes_to_ignore", Json::array()))
    ignored.push_back(compiled(pattern.get<std::string>(), where));
  if (settings.value("ignore_punctuation", false)) ignored.push_back(compiled(R"(\p{P})", where));
  auto plain = [=](std::string text) {
    for (const auto& pattern : ignored) text = pattern.replace(text, "");
    return lower ? text::jinja::to_lower(text) : text;
  };
  return [=](Answers answers, const Json& document) {
    std::vector<std::pair<std::string, std::string>> letters;  // a choice's text and its letter
    std::string alternatives;
    for (const auto& choice : document.value("choices", Json::array())) {
      if (!choice.is_string()) continue;
      auto letter = std::string(1, static_cast<char>('A' + letters.size()));
      letters.emplace_back(plain(stripped(choice.get<std::string>())), letter);
      alternatives += (alternatives.empty() ? "" : "|") + letter;
    }
    auto behind_colon = compiled(R"(:[\s]*()" + (alternatives.empty() ? "A" : alternatives) + ")", where);
    for (auto& answer : answers) {
      auto text = answer.is_string() ? answer.get<std::string>() : std::string();
      auto found = selected(regex, text, which);
      if (!found || found->empty()) {
        auto searched = plain(text);
        size_t best = std::string::npos, length = 0;
        for (const auto& [choice, letter] : letters)
          if (auto at = searched.find(choice);
              !choice.empty() && at != searched.npos && (at < best || (at == best && choice.size() > length)))
            best = at, length = choice.size(), found = "(" + letter + ")";
      }
      if (!found || found->empty())
        if (found = selected(behind_colon, text, which); found) found = "(" + *found + ")";
      answer = found.value_or(fallback);
    }
    return answers;
  };
}

Filter map_filter(const Json& settings) {
  auto mapping = settings.value("mapping_dict", Json::object());
  Json missing = settings.contains("default_value") ? settings["default_value"] : Json(nullptr);
  return [=](Answers answers, const Json&) {
    for (auto& answer : answers) {
      auto key = answer.is_string() ? answer.get<std::string>() : answer.dump();
      answer = mapping.contains(key) ? mapping[key] : missing;
    }
    return answers;
  };
}

// humaneval's programs: the document's prompt, continued by the response up to a code fence.
Filter predictions_filter(bool ends_at_fence) {
  return [=](Answers answers, const Json& document) {
    for (auto& answer : answers) {
      auto text = answer.is_string() ? answer.get<std::string>() : std::string();
      if (ends_at_fence) text = text.substr(0, text.find("```"));
      answer = document.at("prompt").get<std::string>() + text;
    }
    return answers;
  };
}

Answers majority(const Answers& answers) {
  const Json* best = nullptr;
  long most = 0;
  for (const auto& answer : answers)
    if (auto count = std::ranges::count(answers, answer); count > most) most = count, best = &answer;
  return best ? Answers{*best} : Answers{};
}

Answers first_of(Answers answers, size_t count) {
  if (answers.size() > count) answers.resize(count);
  return answers;
}

}  // namespace

Answers FilterPipeline::apply(Answers answers, const Json& document) const {
  for (const auto& step : steps) answers = step(std::move(answers), document);
  return answers;
}

Filter make_filter(const Json& settings, const std::string& where) try {
  if (settings.at("function").is_object())
    throw UserError(ExitCode::bad_data, fmt::format("{} is the Python function {}", where, settings["function"].dump()),
                    "hone runs no Python for tasks; use regex, multi_choice_regex, map, lowercase, uppercase, remove_whitespace, "
                    "remove_until, take_first, take_first_k or majority_vote");
  auto name = settings.at("function").get<std::string>();
  if (name == "regex") return regex_filter(settings, where);
  if (name == "multi_choice_regex") return choice_filter(settings, where);
  if (name == "map") return map_filter(settings);
  if (name == "remove_whitespace") return each_text([](const std::string& text) { return stripped(text); });
  if (name == "remove_until")  // evalscope's: removes the reasoning
    return each_text([mark = settings.at("delimiter").get<std::string>()](const std::string& text) {
      const auto at = mark.empty() ? text.npos : text.find(mark);
      return at == text.npos ? text : text.substr(at + mark.size());
    });
  if (name == "lowercase") return each_text([](const std::string& text) { return text::jinja::to_lower(text); });
  if (name == "uppercase") return each_text([](const std::string& text) { return text::jinja::to_upper(text); });
  if (name == "build_predictions") return predictions_filter(false);
  if (name == "build_predictions_instruct") return predictions_filter(true);
  if (name == "take_first") return [](Answers answers, const Json&) { return first_of(std::move(answers), 1); };
  if (name == "take_first_k")
    return [k = settings.at("k").get<size_t>()](Answers answers, const Json&) { return first_of(std::move(answers), k); };
  if (name == "majority_vote") return [](const Answers& answers, const Json&) { return majority(answers); };
  throw UserError(ExitCode::bad_data, fmt::format("{}: there is no filter {}", where, name),
                  "expected regex, multi_choice_regex, map, lowercase, uppercase, remove_whitespace, take_first, take_first_k or "
                  "majority_vote");
} catch (const Json::exception& problem) {
  throw UserError(ExitCode::bad_data, fmt::format("{}: {}", where, problem.what()));
}

}  // namespace hone::eval
