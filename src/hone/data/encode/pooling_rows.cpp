#include "hone/data/encode/pooling_rows.h"

#include <charconv>
#include <cmath>

#include "hone/base/error.h"
#include "hone/data/encode/decision_rows.h"
#include "hone/data/encode/truncate.h"
#include "hone/data/formats/messages.h"
#include "hone/data/row_report.h"

namespace hone::data {
namespace {

// CSV files contain numbers as text.
std::optional<double> grade_number(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_boolean()) return value.get<bool>() ? 1.0 : 0.0;
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  double number = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  return status == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

Result<std::vector<float>> grades_of(const Json& label, const std::string& where) {
  if (label.is_null()) return row_error(RowProblem::columns, where, "the row has no \"label\"");
  std::vector<float> grades;
  for (const auto& one : label.is_array() ? label : Json::array({label})) {
    auto number = grade_number(one);
    if (!number || !std::isfinite(*number))
      return row_error(RowProblem::type, where, fmt::format("\"label\" holds {}; expected numbers", one.dump()));
    grades.push_back(static_cast<float>(*number));
  }
  return grades;
}

Json extra_column(const Conversation& conversation, const char* name) {
  return conversation.extra.is_object() && conversation.extra.contains(name) ? conversation.extra[name] : Json();
}

Result<std::vector<float>> checked_classes(const Json& label, const PoolingDataConfig& config, const std::string& where) {
  auto grades = grades_of(label, where);
  if (!grades) return grades;
  auto count = static_cast<int64_t>(grades->size());
  bool fits = config.whole_numbers ? !config.one_class || count == 1 : count == config.classes;
  if (!fits)
    return row_error(RowProblem::type, where,
                     fmt::format("\"label\" is {}; expected {}", label.dump(),
                                 config.whole_numbers ? "one class" : fmt::format("{} values", config.classes)));
  if (!config.whole_numbers) return grades;
  for (float grade : *grades)
    if (grade != std::floor(grade) || grade < 0 || grade >= static_cast<float>(config.classes))
      return row_error(RowProblem::type, where,
                       fmt::format("\"label\" is {}; expected classes from 0 to {}", label.dump(), config.classes - 1));
  return grades;
}

struct Candidate {
  std::vector<Message> messages;
  std::vector<std::string> images, videos, audios;
};

// The media of candidate `index`: a list for each candidate; of a single candidate also its list alone.
RowCheck read_candidate_media(const Json& value, const std::string& column, size_t index, size_t candidates,
                              std::vector<std::string>& out) {
  if (value.is_null()) return std::nullopt;
  const bool is_nested = value.is_array() && !value.empty() && (value.front().is_array() || value.front().is_null());
  if (!is_nested && candidates == 1) return read_media(value, column, out);
  if (!value.is_array() || value.size() != candidates)
    return row_issue(RowProblem::type, "\"{}\" is {}; expected {} lists, one for each text", column,
                     value.is_array() ? fmt::format("a list of {}", value.size()) : std::string(type_word(value)), candidates);
  return read_media(value[index], column, out);
}

// A list of lists of messages; a single list of messages is accepted too. `kind` is "positive" or "negative".
Result<std::vector<Candidate>> candidates_of(const Conversation& conversation, const std::string& kind) {
  std::vector<Candidate> candidates;
  auto value = extra_column(conversation, (kind + "_messages").c_str());
  if (value.is_null()) return candidates;
  auto where = conversation.origin.str();
  if (!value.is_array())
    return row_error(RowProblem::type, where, fmt::format("\"{}_messages\" is not a list of message lists", kind));
  if (!value.empty() && value.front().is_object()) value = Json::array({value});
  for (size_t i = 0; i < value.size(); ++i) {
    auto parsed = parse_messages(value[i], std::nullopt, SwiftFormatOptions{}, where);
    if (!parsed) return Error{parsed.error()};
    Candidate candidate{std::move(parsed->messages), std::move(parsed->images), std::move(parsed->videos),
                        std::move(parsed->audios)};
    for (auto [name, media] : {std::pair("images", &candidate.images), std::pair("videos", &candidate.videos),
                               std::pair("audios", &candidate.audios)}) {
      const auto column = fmt::format("{}_{}", kind, name);
      if (auto bad = read_candidate_media(extra_column(conversation, column.c_str()), column, i, value.size(), *media))
        return row_error(bad->problem, where, bad->details);
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

Conversation text_alone(const Conversation& row, Candidate candidate) {
  Conversation text;
  text.origin = row.origin;
  text.tools = row.tools;
  text.tags = row.tags;
  text.messages = std::move(candidate.messages);
  text.images = std::move(candidate.images);
  text.videos = std::move(candidate.videos);
  text.audios = std::move(candidate.audios);
  return text;
}

// The candidate follows the end of the query; its own system message replaces the query's.
std::vector<Message> question_with(const std::vector<Message>& question, const std::vector<Message>& candidate) {
  bool own_system = !candidate.empty() && candidate.front().role == "system";
  bool has_system = !question.empty() && question.front().role == "system";
  std::vector<Message> joined(question.begin() + (own_system && has_system ? 1 : 0), question.end());
  if (own_system) joined.insert(joined.begin(), candidate.front());
  joined.insert(joined.end(), candidate.begin() + (own_system ? 1 : 0), candidate.end());
  return joined;
}

// The query's media come first, as its text does.
Candidate after_question(const Conversation& row, const Candidate& candidate) {
  auto joined = [](std::vector<std::string> first, const std::vector<std::string>& then) {
    first.insert(first.end(), then.begin(), then.end());
    return first;
  };
  return {question_with(row.messages, candidate.messages), joined(row.images, candidate.images),
          joined(row.videos, candidate.videos), joined(row.audios, candidate.audios)};
}

// A text without labels, truncated to the maximum length.
Result<Sample> pooling_sample(const Encoder& encoder, Sample sample, const Conversation& conversation) {
  sample.origin = conversation.origin;
  sample.labels.assign(sample.ids.size(), kIgnore);
  sample.loss_scale.clear();
  const auto& config = encoder.config();
  auto length = static_cast<int64_t>(sample.ids.size());
  if (length == 0) return row_error(RowProblem::columns, conversation.origin.str(), "a text is empty");
  if (config.max_length <= 0 || length <= config.max_length) return sample;
  if (config.truncation == Truncation::drop || config.truncation == Truncation::split)
    return row_error(RowProblem::too_long, conversation.origin.str(),
                     fmt::format("{} tokens; max_length is {}", length, config.max_length));
  truncate(sample, config.max_length, config.truncation);
  return sample;
}

Result<std::vector<Sample>> encode_classes(const Encoder& encoder, const Conversation& row, const PoolingDataConfig& config) {
  auto grades = checked_classes(extra_column(row, "label"), config, row.origin.str());
  if (!grades) return Error{grades.error()};
  auto sample = encode_pooling_text(encoder, row);
  if (!sample) return Error{sample.error()};
  sample->sequence_labels = std::move(*grades);
  return std::vector<Sample>{std::move(*sample)};
}

// The texts to score in the order of the row's labels; `full_text` adds to a candidate what precedes it.
template <class FullText>
Result<std::vector<Sample>> encode_candidates(const Encoder& encoder, const Conversation& row, std::vector<Sample> samples,
                                              float positive_grade, size_t most_positives, FullText full_text) {
  for (auto [kind, grade] : {std::pair{"positive", positive_grade}, std::pair{"negative", 0.0f}}) {
    auto texts = candidates_of(row, kind);
    if (!texts) return Error{texts.error()};
    bool positive = kind == std::string_view("positive");
    if (positive && texts->empty())
      return row_error(RowProblem::columns, row.origin.str(), "the row has no \"positive_messages\"");
    if (positive && texts->size() > most_positives) texts->resize(most_positives);
    for (auto& candidate : *texts) {
      auto sample = encode_pooling_text(encoder, text_alone(row, full_text(std::move(candidate))));
      if (!sample) return Error{sample.error()};
      sample->sequence_labels = {grade};
      samples.push_back(std::move(*sample));
    }
  }
  return samples;
}

Result<std::vector<Sample>> encode_likeness(const Encoder& encoder, const Conversation& row) {
  auto anchor = encode_pooling_text(encoder, row);
  if (!anchor) return Error{anchor.error()};
  float grade = 1;
  if (auto label = extra_column(row, "label"); !label.is_null()) {
    auto grades = grades_of(label, row.origin.str());
    if (!grades) return Error{grades.error()};
    grade = grades->empty() ? 1 : grades->front();
  }
  return encode_candidates(encoder, row, {std::move(*anchor)}, grade, 1, [](Candidate candidate) { return candidate; });
}

Result<std::vector<Sample>> encode_relevance(const Encoder& encoder, const Conversation& row) {
  return encode_candidates(encoder, row, {}, 1, SIZE_MAX,
                           [&](const Candidate& candidate) { return after_question(row, candidate); });
}

Result<std::vector<Sample>> encode_labeled_decision(const Encoder& encoder, const Conversation& row) {
  auto sample = encode_decision(encoder, row);
  if (!sample) return Error{sample.error()};
  auto shares = extra_column(row, "target_probs");
  bool fits = shares.is_array() && !shares.empty() && shares[0].is_array() && shares[0].size() == sample->sequence_labels.size();
  if (!fits)
    return row_error(RowProblem::columns, row.origin.str(),
                     "the question has no answer, which \"target_probs\" or \"gold\" would give");
  for (size_t i = 0; i < shares[0].size(); ++i) {
    if (!shares[0][i].is_number())
      return row_error(RowProblem::type, row.origin.str(), "\"target_probs\" holds what is not a number");
    sample->sequence_labels[i] = shares[0][i].get<float>();
  }
  return std::vector<Sample>{std::move(*sample)};
}

std::vector<size_t> draw_some(std::vector<size_t> all, int64_t most, Rng& rng) {
  if (static_cast<int64_t>(all.size()) <= most) return all;
  rng.shuffle(all);
  all.resize(static_cast<size_t>(most));
  return all;
}

}  // namespace

Result<Sample> encode_pooling_text(const Encoder& encoder, const Conversation& conversation) {
  bool has_reply = !conversation.messages.empty() && conversation.messages.back().role == "assistant";
  Sample sample;
  if (has_reply) {
    auto whole = encoder.encode(conversation);
    if (!whole) return whole;
    sample = std::move(*whole);
  } else {
    auto open = encoder.encode_prompt(conversation, &sample.pictures, &sample.sounds);
    if (!open) return Error{open.error()};
    sample.ids = std::move(*open);
  }
  return pooling_sample(encoder, std::move(sample), conversation);
}

Result<Sample> encode_pooling_tokens(const Encoder& encoder, const Conversation& conversation) {
  auto sample = encode_pooling_text(encoder, conversation);
  if (!sample || (sample->pictures.empty() && sample->sounds.empty())) return sample;
  constexpr const char* kTextOnly = "images, videos and audio are not supported here; expected text only";
  if (conversation.origin.file.empty()) return Error{kTextOnly};  // a request is in no file
  return row_error(RowProblem::media, conversation.origin.str(), kTextOnly);
}

Result<Sample> encode_decision(const Encoder& encoder, const Conversation& conversation) {
  const auto where = conversation.origin.str();
  auto kinds = extra_column(conversation, "kinds"), questions = extra_column(conversation, "questions"),
       options = extra_column(conversation, "options");
  bool whole = kinds.is_array() && questions.is_array() && options.is_array() && !kinds.empty() && !questions.empty() &&
               !options.empty() && kinds[0].is_string() && questions[0].is_string() && options[0].is_array();
  if (!whole || conversation.messages.empty())
    return row_error(RowProblem::columns, where, "a decision needs \"messages\", \"questions\", \"kinds\" and \"options\"");
  const auto kind = std::ranges::find(kQuestionKinds, kinds[0].get<std::string>());
  if (kind == kQuestionKinds.end())
    return row_error(RowProblem::columns, where,
                     fmt::format("the kind of a question is {}; expected noul, choice or score", kinds[0].dump()));
  constexpr size_t kMostOptions = 16;  // options that have a letter: A to P
  std::vector<std::string> texts;
  for (const auto& option : options[0]) texts.push_back(option.is_string() ? option.get<std::string>() : option.dump());
  if (texts.empty() || texts.size() > kMostOptions)
    return row_error(RowProblem::type, where,
                     fmt::format("a question has {} options; expected 1 to {}", texts.size(), kMostOptions));
  Sample sample;
  sample.ids = encoder.tokenizer().encode(
      decision_prompt(*kind, conversation.messages.front().content, questions[0].get<std::string>(), texts));
  auto judged = pooling_sample(encoder, std::move(sample), conversation);
  if (!judged) return judged;
  judged->sequence_labels.assign(texts.size(), 0);
  judged->question = static_cast<QuestionKind>(kind - kQuestionKinds.begin());
  return judged;
}

Result<std::vector<Sample>> encode_pooling_row(const Encoder& encoder, const Conversation& conversation,
                                               const PoolingDataConfig& config) {
  switch (config.kind) {
    case PoolingTask::classes:
      return encode_classes(encoder, conversation, config);
    case PoolingTask::embedding:
      return encode_likeness(encoder, conversation);
    case PoolingTask::reranking:
      return encode_relevance(encoder, conversation);
    case PoolingTask::decisions:
      return encode_labeled_decision(encoder, conversation);
  }
  HONE_CHECK(false, "a kind of rows without an encoding");
}

std::vector<Sample> sample_candidates(const std::vector<Sample>& all, const PoolingDataConfig& config, Rng& rng) {
  std::vector<size_t> positives, negatives;
  for (size_t i = 0; i < all.size(); ++i)
    (all[i].sequence_labels == std::vector<float>{1.0f} ? positives : negatives).push_back(i);
  std::vector<Sample> drawn;
  for (size_t positive : draw_some(positives, config.most_positives, rng)) {
    drawn.push_back(all[positive]);
    for (size_t negative : draw_some(negatives, config.most_negatives, rng)) drawn.push_back(all[negative]);
  }
  return drawn;
}

}  // namespace hone::data
