#include "hone/eval/scores/instructions.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "hone/text/jinja/unicode.h"
#include "hone/text/python_regex.h"

namespace hone::eval {
namespace {

using text::jinja::Side;
using text::jinja::to_lower;

// Input of a check.
struct Checked {
  const std::string& text;
  const Json& kwargs;
  const std::string& instruction;
  const TextAnalysis& analysis;

  const Json& argument(const char* name) const {
    const auto found = kwargs.find(name);
    if (found == kwargs.end() || found->is_null())
      throw UserError(ExitCode::bad_data, fmt::format("{} has no {} in kwargs", instruction, name));
    return *found;
  }
  int64_t number(const char* name) const { return static_cast<int64_t>(argument(name).get<double>()); }
  std::string words(const char* name) const { return argument(name).get<std::string>(); }
  // The count against the argument `threshold`: "less than", or "at least".
  bool compares(int64_t count, const char* threshold, const char* relation) const {
    const auto wanted = words(relation);
    if (wanted != "less than" && wanted != "at least")
      throw UserError(ExitCode::bad_data, fmt::format("{}: {} is {}", instruction, relation, wanted),
                      "expected less than or at least");
    return wanted == "less than" ? count < number(threshold) : count >= number(threshold);
  }
};

std::string bare(std::string_view text) { return std::string(text::jinja::strip_space(text, Side::both)); }
bool is_blank(std::string_view text) { return text::jinja::strip_space(text, Side::both).empty(); }

std::vector<text::PythonRegex::Match> matches_in(const std::string& pattern, const std::string& text, bool ignore_case = false) {
  return text::PythonRegex::compile(pattern, ignore_case)
      .or_throw(ExitCode::bad_data, "IFEval's pattern " + pattern)
      .find_all(text);
}
int64_t count_in(const std::string& pattern, const std::string& text, bool ignore_case = false) {
  return static_cast<int64_t>(matches_in(pattern, text, ignore_case).size());
}

std::vector<std::string> parts_between(const std::string& text, std::string_view separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0;;) {
    const auto end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end == text.npos ? end : end - begin));
    if (end == text.npos) return parts;
    begin = end + separator.size();
  }
}

// Python's isupper and islower: letters of one case only, and at least one.
bool has_only_case(const std::string& text, bool upper) {
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    const auto point = text::jinja::next_code_point(text, at);
    if (upper ? text::jinja::is_lower(point) : text::jinja::is_upper(point)) return false;
    found |= upper ? text::jinja::is_upper(point) : text::jinja::is_lower(point);
  }
  return found;
}

bool is_english_in_case(const Checked& it, bool upper) {
  return has_only_case(it.text, upper) && (it.analysis.language == "en" || it.analysis.language.empty());
}

bool has_highlights(const Checked& it) {
  int64_t count = 0;
  for (const auto& match : matches_in(R"(\*[^\n\*]*\*)", it.text))
    count += !is_blank(text::jinja::strip_characters(*match[0], "*", Side::both));
  for (const auto& match : matches_in(R"(\*\*[^\n\*]*\*\*)", it.text))
    count += !is_blank(match[0]->substr(2, match[0]->size() - 4));
  return count >= it.number("num_highlights");
}

// Paragraphs between three asterisks; only the first and the last may be empty.
bool has_paragraphs(const Checked& it) {
  const std::string mark(1, '\x1f');
  const auto divider = text::PythonRegex::compile(R"(\s?\*\*\*\s?)").or_throw(ExitCode::failure, "IFEval");
  const auto paragraphs = parts_between(divider.replace(it.text, mark), mark);
  auto count = static_cast<int64_t>(paragraphs.size());
  for (size_t i = 0; i < paragraphs.size(); ++i) {
    if (!is_blank(paragraphs[i])) continue;
    if (i != 0 && i + 1 != paragraphs.size()) return false;
    --count;
  }
  return count == it.number("num_paragraphs");
}

// Paragraphs between empty lines; the nth starts with a word.
bool has_first_word(const Checked& it) {
  const auto paragraphs = parts_between(it.text, "\n\n");
  const auto count = std::ranges::count_if(paragraphs, [](const std::string& one) { return !is_blank(one); });
  const auto nth = it.number("nth_paragraph");
  if (nth < 1 || nth > count) return false;
  const auto paragraph = bare(paragraphs[static_cast<size_t>(nth - 1)]);
  if (paragraph.empty()) return false;
  auto word = *matches_in(R"(\S+)", paragraph)[0][0];
  word = text::jinja::strip_characters(text::jinja::strip_characters(word, "'", Side::left), "\"", Side::left);
  word = to_lower(word.substr(0, word.find_first_of(".,?!'\"")));
  return count == it.number("num_paragraphs") && word == to_lower(it.words("first_word"));
}

bool has_postscript(const Checked& it) {
  const auto marker = bare(it.words("postscript_marker"));
  const auto pattern = marker == "P.P.S"  ? std::string(R"(p\.\s?p\.\s?s.*$)")
                       : marker == "P.S." ? std::string(R"(p\.\s?s\..*$)")
                                          : to_lower(marker) + ".*$";
  return count_in(R"((?m)\s*)" + pattern, to_lower(it.text)) > 0;
}

bool is_json(const Checked& it) {
  auto text = bare(it.text);
  for (const std::string_view fence : {"```json", "```Json", "```JSON", "```"})
    if (text.starts_with(fence)) text.erase(0, fence.size());
  if (text.ends_with("```")) text.resize(text.size() - 3);
  return parse_json(bare(text)).ok();
}

bool has_two_responses(const Checked& it) {
  const auto parts = parts_between(it.text, "******");
  std::vector<std::string> given;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!is_blank(parts[i]))
      given.push_back(bare(parts[i]));
    else if (i != 0 && i + 1 != parts.size())
      return false;
  }
  return given.size() == 2 && given[0] != given[1];
}

bool has_letter_often(const Checked& it) {
  const auto letter = to_lower(bare(it.words("letter"))), text = to_lower(it.text);
  return it.compares(letter.empty() ? 0 : static_cast<int64_t>(parts_between(text, letter).size()) - 1, "let_frequency",
                     "let_relation");
}

bool has_title(const Checked& it) {
  return std::ranges::any_of(matches_in(R"(<<[^\n]+>>)", it.text), [](const auto& match) {
    const auto inner = text::jinja::strip_characters(*match[0], "<", Side::left);
    return !is_blank(text::jinja::strip_characters(inner, ">", Side::right));
  });
}

std::vector<std::string> listed_words(const Checked& it, const char* name) {
  return it.argument(name).get<std::vector<std::string>>();
}

struct InstructionCheck {
  std::function<bool(const Checked&)> follows;
  bool is_analyzed = false;
};

const std::map<std::string, InstructionCheck>& instruction_checks() {
  static const std::map<std::string, InstructionCheck> checks{
      {"keywords:existence", {[](const Checked& it) {
         return std::ranges::all_of(listed_words(it, "keywords"),
                                    [&](const std::string& word) { return count_in(word, it.text, true) > 0; });
       }}},
      {"keywords:frequency", {[](const Checked& it) {
         return it.compares(count_in(bare(it.words("keyword")), it.text, true), "frequency", "relation");
       }}},
      {"keywords:forbidden_words", {[](const Checked& it) {
         return std::ranges::none_of(listed_words(it, "forbidden_words"), [&](const std::string& word) {
           return count_in(R"(\b)" + word + R"(\b)", it.text, true) > 0;
         });
       }}},
      {"keywords:letter_frequency", {has_letter_often}},
      {"language:response_language",
       {[](const Checked& it) { return it.analysis.language.empty() || it.analysis.language == it.words("language"); }, true}},
      {"length_constraints:number_sentences",
       {[](const Checked& it) { return it.compares(it.analysis.sentences, "num_sentences", "relation"); }, true}},
      {"length_constraints:number_paragraphs", {has_paragraphs}},
      {"length_constraints:number_words",
       {[](const Checked& it) { return it.compares(count_in(R"(\w+)", it.text), "num_words", "relation"); }}},
      {"length_constraints:nth_paragraph_first_word", {has_first_word}},
      {"detectable_content:number_placeholders",
       {[](const Checked& it) { return count_in(R"(\[.*?\])", it.text) >= it.number("num_placeholders"); }}},
      {"detectable_content:postscript", {has_postscript}},
      {"detectable_format:number_bullet_lists", {[](const Checked& it) {
         return count_in(R"((?m)^\s*\*[^\*].*$)", it.text) + count_in(R"((?m)^\s*-.*$)", it.text) == it.number("num_bullets");
       }}},
      {"detectable_format:constrained_response", {[](const Checked& it) {
         return std::ranges::any_of(std::vector{"My answer is yes.", "My answer is no.", "My answer is maybe."},
                                    [&](const char* one) { return it.text.find(one) != it.text.npos; });
       }}},
      {"detectable_format:number_highlighted_sections", {has_highlights}},
      {"detectable_format:multiple_sections", {[](const Checked& it) {
         return count_in(R"(\s?)" + bare(it.words("section_spliter")) + R"(\s?\d+\s?)", it.text) >= it.number("num_sections");
       }}},
      {"detectable_format:json_format", {is_json}},
      {"detectable_format:title", {has_title}},
      {"combination:two_responses", {has_two_responses}},
      {"combination:repeat_prompt",
       {[](const Checked& it) { return to_lower(bare(it.text)).starts_with(to_lower(bare(it.words("prompt_to_repeat")))); }}},
      {"startend:end_checker", {[](const Checked& it) {
         const auto text = bare(it.text);
         return to_lower(text::jinja::strip_characters(text, "\"", Side::both)).ends_with(to_lower(bare(it.words("end_phrase"))));
       }}},
      {"startend:quotation", {[](const Checked& it) {
         const auto text = bare(it.text);
         return text.size() > 1 && text.front() == '"' && text.back() == '"';
       }}},
      {"change_case:capital_word_frequency",
       {[](const Checked& it) { return it.compares(it.analysis.capital_words, "capital_frequency", "capital_relation"); }, true}},
      {"change_case:english_capital", {[](const Checked& it) { return is_english_in_case(it, true); }, true}},
      {"change_case:english_lowercase", {[](const Checked& it) { return is_english_in_case(it, false); }, true}},
      {"punctuation:no_comma", {[](const Checked& it) { return it.text.find(',') == it.text.npos; }}},
  };
  return checks;
}

const InstructionCheck& check_named(const std::string& instruction) {
  const auto found = instruction_checks().find(instruction);
  if (found == instruction_checks().end())
    throw UserError(ExitCode::bad_data, fmt::format("there is no instruction {} in IFEval", instruction));
  return found->second;
}

std::vector<std::string> instructions_of(const Json& document) {
  auto ids = document.at("instruction_id_list").get<std::vector<std::string>>();
  if (ids.empty() || !document.at("kwargs").is_array() || document["kwargs"].size() != ids.size())
    throw UserError(ExitCode::bad_data, "expected as many kwargs as instruction_id_list has entries, and at least one");
  return ids;
}

UserError document_error(const Json& document, const std::string& found) {
  return UserError(ExitCode::bad_data, fmt::format("the document {} of ifeval: {}", document.value("key", Json()).dump(), found),
                   "expected google/IFEval's columns: key, prompt, instruction_id_list and kwargs");
}

}  // namespace

bool needs_text_analysis(const Json& document) try {
  return std::ranges::any_of(instructions_of(document), [](const std::string& id) { return check_named(id).is_analyzed; });
} catch (const UserError& problem) {
  throw document_error(document, problem.what());
} catch (const Json::exception& problem) {
  throw document_error(document, problem.what());
}

std::vector<std::string> accepted_forms(const std::string& answer) {
  const auto first = answer.find('\n'), last = answer.rfind('\n');
  const auto lines = [&](size_t begin, size_t end) {
    return begin < end ? bare(answer.substr(begin, end - begin)) : std::string();
  };
  const auto after_first = first == answer.npos ? answer.size() : first + 1, before_last = last == answer.npos ? 0 : last;
  std::vector<std::string> forms{answer, lines(after_first, answer.size()), lines(0, before_last),
                                 lines(after_first, before_last)};
  for (size_t i = 0; i < 4; ++i) {
    auto plain = forms[i];
    std::erase(plain, '*');
    forms.push_back(std::move(plain));
  }
  return forms;
}

MetricItems score_instructions(const Json& document, const std::string& answer, const TextAnalyses& analyses) try {
  const auto ids = instructions_of(document);
  const TextAnalysis none;
  const auto forms = accepted_forms(answer);
  double strict = 0, loose = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto& check = check_named(ids[i]);
    const auto follows = [&](const std::string& text) {
      if (is_blank(text)) return false;
      return check.follows({text, document["kwargs"][i], ids[i], check.is_analyzed ? analyses.at(text) : none});
    };
    strict += follows(answer) ? 1 : 0;
    loose += std::ranges::any_of(forms, follows) ? 1 : 0;
  }
  const auto count = static_cast<double>(ids.size());
  return {{"prompt_level_strict_acc", {.value = strict == count ? 1.0 : 0.0}},
          {"inst_level_strict_acc", {.value = strict, .weight = count}},
          {"prompt_level_loose_acc", {.value = loose == count ? 1.0 : 0.0}},
          {"inst_level_loose_acc", {.value = loose, .weight = count}}};
} catch (const UserError& problem) {
  throw document_error(document, problem.what());
} catch (const Json::exception& problem) {
  throw document_error(document, problem.what());
}

}  // namespace hone::eval
