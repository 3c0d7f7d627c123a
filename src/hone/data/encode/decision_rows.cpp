#include "hone/data/encode/decision_rows.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "hone/data/datasets/python_random.h"
#include "hone/data/row_report.h"
#include "hone/text/jinja/repr.h"
#include "hone/text/jinja/unicode.h"

namespace hone::data {
namespace {

using Keys = std::initializer_list<const char*>;

// The first of these columns that is not empty.
Json first_of(const Json& fields, Keys keys) {
  for (const char* key : keys)
    if (auto found = fields.find(key); found != fields.end() && !found->is_null()) return *found;
  return nullptr;
}

std::string python_repr(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "None";
    case Json::value_t::boolean:
      return value.get<bool>() ? "True" : "False";
    case Json::value_t::number_float:
      return text::jinja::repr_real(value.get<double>());
    case Json::value_t::string:
      return text::jinja::repr_string(value.get_ref<const std::string&>());
    case Json::value_t::array: {
      std::vector<std::string> items;
      for (const auto& item : value) items.push_back(python_repr(item));
      return fmt::format("[{}]", fmt::join(items, ", "));
    }
    case Json::value_t::object: {
      std::vector<std::string> items;
      for (const auto& [key, item] : value.items()) items.push_back(text::jinja::repr_string(key) + ": " + python_repr(item));
      return fmt::format("{{{}}}", fmt::join(items, ", "));
    }
    default:
      return value.dump();
  }
}
std::string python_text(const Json& value) { return value.is_string() ? value.get<std::string>() : python_repr(value); }

// "due_date" becomes "Due date".
std::string field_title(const std::string& key) {
  const auto separates = [](char c) { return c == '_' || c == '-' || c == '/'; };
  std::string words;  // a run of separators is one space
  for (size_t i = 0; i < key.size(); ++i)
    if (!separates(key[i]))
      words += key[i];
    else if (i == 0 || !separates(key[i - 1]))
      words += ' ';
  return text::jinja::capitalize(text::jinja::strip_space(words, text::jinja::Side::both));
}

std::string state_as_lines(const Json& state) {
  if (state.size() == 1) return python_text(state.front());
  std::vector<std::string> lines;
  for (const auto& [key, value] : state.items()) lines.push_back(fmt::format("{}: {}", field_title(key), python_text(value)));
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::string state_text(const Json& state) {
  if (state.is_null()) return "";
  if (!state.is_object()) return python_text(state);
  std::vector<std::string> texts;
  for (const auto& [key, value] : state.items())
    if (value.is_string() && !text::jinja::strip_space(value.get_ref<const std::string&>(), text::jinja::Side::both).empty())
      texts.push_back(value.get<std::string>());
  return fmt::format("{}", fmt::join(texts, "\n"));
}

struct Question {
  QuestionKind kind;
  std::string text;
  std::vector<std::string> options;  // of a choice
  Json gold;                         // null, the index of an option, or a distribution
};

struct DecisionRecord {
  Json state;
  std::vector<Question> questions;
};

Result<QuestionKind> kind_called(const Json& word, const std::string& where) {
  static const std::map<std::string, QuestionKind> kinds{
      {"noul", QuestionKind::yes_or_no}, {"yes_no", QuestionKind::yes_or_no}, {"yn", QuestionKind::yes_or_no},
      {"bool", QuestionKind::yes_or_no}, {"choice", QuestionKind::choice},    {"multiple_choice", QuestionKind::choice},
      {"mcq", QuestionKind::choice},     {"select", QuestionKind::choice},    {"score", QuestionKind::score},
      {"rating", QuestionKind::score},   {"ordinal", QuestionKind::score},    {"likert", QuestionKind::score}};
  auto name = text::jinja::to_lower(text::jinja::strip_space(python_text(word), text::jinja::Side::both));
  if (auto found = kinds.find(name); found != kinds.end()) return found->second;
  return row_error(RowProblem::columns, where,
                   fmt::format("the kind of a question is {}; expected noul, choice or score", word.dump()));
}

std::string option_text(const Json& option) {
  if (!option.is_object()) return python_text(option);
  auto text = first_of(option, {"text"});
  return python_text(text.is_null() ? option.value("key", Json("")) : text);
}

Result<Question> read_question(const Json& fields, const std::string& where) {
  auto kind_word = first_of(fields, {"kind", "type", "question_type"}), text = first_of(fields, {"question", "prompt", "query"});
  if (kind_word.is_null() || text.is_null())
    return row_error(RowProblem::columns, where, "a question needs its \"kind\" and its \"question\"");
  auto kind = kind_called(kind_word, where);
  if (!kind) return Error{kind.error()};
  Question question{*kind,
                    python_text(text),
                    {},
                    first_of(fields, {"target_probs", "target", "probs", "dist", "distribution", "gold", "label", "answer"})};
  if (auto options = first_of(fields, {"options", "opts", "choices"}); options.is_array())
    for (const auto& option : options) question.options.push_back(option_text(option));
  return question;
}

Result<DecisionRecord> read_record(const Row& row) {
  const auto where = row.origin.str();
  if (!row.fields.is_object()) return row_error(RowProblem::type, where, "the row is not an object");
  DecisionRecord record{first_of(row.fields, {"state", "context", "passage", "text"}), {}};
  if (record.state.is_null()) record.state = "";
  auto packed = first_of(row.fields, {"questions"});
  bool lists = packed.is_array() && !packed.empty() && packed.front().is_object();
  for (const auto& fields : lists ? packed : Json::array({row.fields})) {
    auto question = read_question(fields, where);
    if (!question) return Error{question.error()};
    record.questions.push_back(std::move(*question));
  }
  return record;
}

// The most likely option and some of the others, in order; the remaining probability is redistributed.
void keep_some_options(Question& question, size_t most, PythonRandom& random) {
  const size_t count = question.options.size();
  if (question.kind != QuestionKind::choice || count <= most) return;
  size_t peak = 0;
  if (question.gold.is_number_integer() && question.gold >= 0 && question.gold < count)
    peak = question.gold.get<size_t>();
  else if (question.gold.is_array() && question.gold.size() == count &&
           std::ranges::all_of(question.gold, [](const Json& share) { return share.is_number(); }))
    peak = static_cast<size_t>(std::ranges::max_element(question.gold, [](const Json& a, const Json& b) { return a < b; }) -
                               question.gold.begin());
  else
    return;
  std::vector<size_t> kept{peak};
  for (size_t other : random.sample(count - 1, std::min(most - 1, count - 1))) kept.push_back(other < peak ? other : other + 1);
  std::ranges::sort(kept);
  std::vector<std::string> options;
  Json shares = Json::array();
  double total = 0;
  for (size_t i : kept) {
    options.push_back(question.options[i]);
    if (question.gold.is_array()) shares.push_back(question.gold[i].get<double>()), total += shares.back().get<double>();
  }
  if (question.gold.is_array()) {
    for (auto& share : shares)
      if (total > 0) share = share.get<double>() / total;
    question.gold = shares;
  } else {
    question.gold = std::ranges::find(kept, peak) - kept.begin();
  }
  question.options = std::move(options);
}

void change(DecisionRecord& record, const DecisionChanges& changes, PythonRandom& random) {
  if (changes.drop_instructions > 0)
    for (auto& question : record.questions)
      if (random.random() < changes.drop_instructions) question.text.clear();
  if (changes.subsample_options > 0)
    for (auto& question : record.questions) keep_some_options(question, static_cast<size_t>(changes.subsample_options), random);
  if (changes.state_as_text > 0 && record.state.is_object() && !record.state.empty() && random.random() < changes.state_as_text)
    record.state = state_as_lines(record.state);
  if (!changes.shuffle_fields) return;
  if (record.state.is_object() && record.state.size() > 1) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : record.state.items()) keys.push_back(key);
    random.shuffle(keys);
    Json shuffled = Json::object();
    for (const auto& key : keys) shuffled[key] = record.state[key];
    record.state = std::move(shuffled);
  }
  if (record.questions.size() > 1) random.shuffle(record.questions);
}

// If the question type defines the options, they are fixed, and the row's names for them are ignored.
std::vector<std::string> options_of(const Question& question) {
  if (question.kind == QuestionKind::yes_or_no) return {"false", "true"};
  if (question.kind == QuestionKind::score) return {"0", "1", "2", "3", "4", "5"};
  return question.options;
}

Result<Json> target_of(const Json& gold, size_t options, const std::string& where) {
  const auto wrong = [&] {
    return row_error(
        RowProblem::type, where,
        fmt::format("the answer is {}; expected the number of one of {} options, or a share for each", gold.dump(), options));
  };
  Json shares = Json::array();
  if (gold.is_array()) {
    if (gold.size() != options) return wrong();
    for (const auto& share : gold) {
      if (!share.is_number()) return wrong();
      shares.push_back(share.get<double>());
    }
    return shares;
  }
  Json number = gold;
  if (gold.is_string() && Json::accept(gold.get_ref<const std::string&>()))
    number = Json::parse(gold.get_ref<const std::string&>());
  if (number.is_boolean()) number = number.get<bool>() ? 1 : 0;
  if (number.is_number_float() && number >= 0 && number < options) number = static_cast<int64_t>(number.get<double>());
  if (!number.is_number_integer() || number < 0 || number >= options) return wrong();
  for (size_t i = 0; i < options; ++i) shares.push_back(number == i ? 1.0 : 0.0);
  return shares;
}

Result<Row> row_of(const DecisionRecord& record, const Question& question, const RowOrigin& origin) {
  auto options = options_of(question);
  if (options.empty()) return row_error(RowProblem::columns, origin.str(), "a choice has no \"options\"");
  Json messages = Json::array();
  messages.push_back({{"role", "user"}, {"content", state_text(record.state)}});
  Json fields{{"messages", messages},
              {"questions", Json::array({question.text})},
              {"kinds", Json::array({kQuestionKinds[static_cast<size_t>(question.kind)]})},
              {"options", Json::array({options})}};
  if (!question.gold.is_null()) {
    auto target = target_of(question.gold, options.size(), origin.str());
    if (!target) return Error{target.error()};
    fields["target_probs"] = Json::array({*target});
  }
  return Row{std::move(fields), origin};
}

class DecisionRows final : public RowReader {
 public:
  DecisionRows(const RowReader& records, const DecisionChanges& changes, uint64_t seed) {
    PythonRandom random(seed);
    for (int64_t i = 0; i < records.size(); ++i) {
      auto row = records.at(i);
      auto record = row ? read_record(*row) : Result<DecisionRecord>(Error{row.error()});
      if (!record) {
        rows_.push_back(Error{record.error()});
        continue;
      }
      change(*record, changes, random);
      for (const auto& question : record->questions) rows_.push_back(row_of(*record, question, row->origin));
    }
  }
  int64_t size() const override { return static_cast<int64_t>(rows_.size()); }
  Result<Row> at(int64_t index) const override { return rows_[static_cast<size_t>(index)]; }

 private:
  std::vector<Result<Row>> rows_;
};

}  // namespace

std::unique_ptr<RowReader> open_decisions(const RowReader& records, const DecisionChanges& changes, uint64_t seed) {
  return std::make_unique<DecisionRows>(records, changes, seed);
}

std::string decision_prompt(std::string_view kind, const std::string& state, const std::string& question,
                            const std::vector<std::string>& options) {
  std::string lines;
  for (size_t i = 0; i < options.size(); ++i)
    lines += kind == "choice" ? fmt::format("{}) {}\n", static_cast<char>('A' + i), options[i]) : options[i] + "\n";
  return fmt::format("[kind] {}\n[state] {}\n[question] {}\n[options]\n{}[decision]:", kind, state, question, lines);
}

}  // namespace hone::data
