// Rows as ms-swift reads them: the columns decide between messages, alpaca and query/response; preference, KTO and media columns
// are kept.
#include <algorithm>

#include "hone/data/formats/checks.h"
#include "hone/data/formats/column_hints.h"
#include "hone/data/formats/columns.h"
#include "hone/data/formats/explicit_prompt.h"
#include "hone/data/formats/format.h"
#include "hone/data/formats/messages.h"
#include "hone/data/formats/python_literal.h"
#include "hone/data/formats/swift_columns.h"

namespace hone::data {
namespace {

std::map<std::string, std::string> wanted(std::map<std::string, std::string> map, bool enabled) {
  if (!enabled) map.clear();
  return map;
}

class SwiftFormat : public RowFormat {
 public:
  SwiftFormat(const SwiftFormatOptions& options, const std::vector<std::string>& present)
      : options_(options),
        given_(options.columns, present),
        info_(options.info_columns, given_.renamed(present)),
        kind_(kind_of(options, info_.renamed(given_.renamed(present)))),
        automatic_(wanted(automatic_columns(kind_, options.system_role), options.auto_columns),
                   info_.renamed(given_.renamed(present))),
        present_(present) {}

  Result<Conversation> convert(Row row) const override {
    auto& fields = row.fields;
    if (auto own = filled_columns(fields); own != present_ && differs(own))
      return SwiftFormat(options_, own).convert(std::move(row));
    const auto columns = filled_columns(fields);
    rename(fields);
    Conversation conversation;
    conversation.origin = row.origin;
    auto where = row.origin.str();
    auto bad = fill_messages(fields, conversation, where);
    if (!bad) bad = fill_rest(fields, conversation, where);
    if (!bad) bad = check(conversation);
    if (bad) explain_columns(columns, conversation, *bad);
    if (bad) return bad->details.starts_with(where) ? Error{bad->details} : row_error(bad->problem, where, bad->details);
    if (options_.demands.pretraining) make_plain_text(conversation);
    return conversation;
  }

 private:
  static std::vector<std::string> filled_columns(const Json& fields) {
    std::vector<std::string> names;
    for (const auto& [name, value] : fields.get_ref<const Json::object_t&>())
      if (!value.is_null()) names.push_back(name);
    return names;
  }

  // A file may mix formats: then the union of its columns says nothing about a row with only a few of them.
  bool differs(const std::vector<std::string>& own) const {
    auto names = final_names(own);
    if (has_column(names, "messages") || (has_column(names, "query") && has_column(names, "response"))) return false;
    if (kind_ == SwiftRowKind::alpaca && (has_column(names, "instruction") || has_column(names, "input"))) return false;
    SwiftFormat alone(options_, own);
    auto by_itself = alone.final_names(own);
    return alone.kind_ != kind_ || has_column(by_itself, "messages") ||
           (!has_column(names, "query") && has_column(by_itself, "query"));
  }

  std::vector<std::string> final_names(const std::vector<std::string>& columns) const {
    return automatic_.renamed(info_.renamed(given_.renamed(columns)));
  }

  // The file's name for `column`.
  std::string as_written(const std::string& column) const {
    auto found =
        std::find_if(present_.begin(), present_.end(), [&](const auto& name) { return final_names({name}).front() == column; });
    return found == present_.end() ? column : *found;
  }

  void rename(Json& fields) const {
    if (!options_.columns.empty()) given_.apply(fields);
    Json solution = has_value(fields, "solution") ? fields["solution"] : Json();
    if (!options_.info_columns.empty()) info_.apply(fields);
    if (options_.auto_columns) automatic_.apply(fields);
    take_column(fields, "_");
    if (!solution.is_null()) fields["solution"] = std::move(solution);
  }

  RowCheck fill_messages(Json& fields, Conversation& conversation, const std::string& where) const {
    std::optional<std::string> system;
    if (Json value = take_column(fields, "system"); value.is_string())
      system = value.get<std::string>();
    else if (!value.is_null())
      return row_issue(RowProblem::type, "\"system\" is {}; expected text", type_word(value));
    join_explicit_prompt(fields, options_);
    if (has_value(fields, "messages")) return parse_into(take_column(fields, "messages"), system, fields, conversation, where);
    if (has_value(fields, "chosen") && fields["chosen"].is_array() && !has_value(fields, "query"))
      return parse_into(take_column(fields, "chosen"), system, fields, conversation, where);
    if (auto bad = join_alpaca(fields)) return bad;
    return fill_turns(fields, system, conversation);
  }

  RowCheck parse_into(const Json& list, const std::optional<std::string>& system, const Json& fields, Conversation& conversation,
                      const std::string& where) const {
    auto parsed = parse_messages(list, system, options_, where);
    if (!parsed) return RowIssue{problem_of(parsed.error()), parsed.error()};
    for (const auto& kind : parsed->without_source)
      if (auto column = fields.find(kind + "s"); column == fields.end() || column->empty()) return part_without_source(kind);
    conversation.messages = std::move(parsed->messages);
    conversation.images = std::move(parsed->images);
    conversation.videos = std::move(parsed->videos);
    conversation.audios = std::move(parsed->audios);
    return std::nullopt;
  }

  RowCheck join_alpaca(Json& fields) const {
    if (kind_ != SwiftRowKind::alpaca) return std::nullopt;
    Json instruction = take_column(fields, "instruction"), input = take_column(fields, "input"),
         output = take_column(fields, "output");
    for (const auto* part : {&instruction, &input})
      if (!part->is_null() && !part->is_string())
        return row_issue(RowProblem::type, "\"{}\" is {}; expected text", part == &input ? "input" : "instruction",
                         type_word(*part));
    auto text = [](const Json& value) { return value.is_string() ? value.get<std::string>() : std::string(); };
    if (instruction.is_null() && input.is_null())
      return row_issue(RowProblem::columns, "neither instruction nor input; expected a question");
    auto question = text(instruction), more = text(input);
    fields["query"] = question.empty() || more.empty() ? question + more : question + "\n" + more;
    if (!output.is_null()) fields["response"] = std::move(output);
    return std::nullopt;
  }

  RowCheck add_turn(const Json& value, const char* role, const char* column, Conversation& conversation) const {
    if (value.is_null()) return std::nullopt;
    if (!value.is_string())
      return row_issue(RowProblem::type, "\"{}\" is {}; expected text", as_written(column), type_word(value));
    conversation.messages.push_back({role, value.get<std::string>(), {}, {}, nullptr});
    return std::nullopt;
  }

  RowCheck fill_turns(Json& fields, const std::optional<std::string>& system, Conversation& conversation) const {
    Json query = take_column(fields, "query"), response = take_column(fields, "response"),
         history = take_column(fields, "history");
    if (response.is_array()) response = response.empty() ? Json() : Json(response.front());
    // The `solution` of a reward may be a number.
    if (options_.demands.prompts_only && (response.is_number() || response.is_boolean())) response = response.dump();
    // Pairs of TRL and LLaMA-Factory: the chosen text is the response.
    if (response.is_null() && has_value(fields, "chosen") && fields["chosen"].is_string())
      response = take_column(fields, "chosen");
    if (query.is_null() && response.is_null())
      return row_issue(RowProblem::columns, "{}",
                       unknown_columns_hint(filled_columns(fields), automatic_columns(kind_, options_.system_role)));
    if (history.is_string() && !history.get_ref<const std::string&>().empty()) {
      auto parsed = parse_value_text(history.get_ref<const std::string&>());
      if (!parsed) return row_issue(RowProblem::type, "\"history\" is text that holds no list ({})", parsed.error());
      history = std::move(parsed).value();
    }
    if (query.is_null() && !options_.demands.pretraining)
      if (auto contested = question_hint(filled_columns(fields), automatic_columns(kind_, options_.system_role));
          !contested.empty())
        return row_issue(RowProblem::columns, "{}", contested);
    if (system) conversation.messages.push_back({"system", *system, {}, {}, nullptr});
    if (history.is_array()) {
      for (const auto& pair : history) {
        if (!pair.is_array() || pair.size() != 2)
          return row_issue(RowProblem::type, "\"history\" holds {}; expected pairs [query, response]", type_word(pair));
        if (auto bad = add_turn(pair[0], "user", "history", conversation)) return bad;
        if (auto bad = add_turn(pair[1], "assistant", "history", conversation)) return bad;
      }
    } else if (!history.is_null() && !history.is_string()) {
      return row_issue(RowProblem::type, "\"history\" is {}; expected a list of pairs", type_word(history));
    }
    if (auto bad = add_turn(query, "user", "query", conversation)) return bad;
    return add_turn(response, "assistant", "response", conversation);
  }

  // A row without a response usually has differently named columns: the error names them and shows how to map them.
  void explain_columns(const std::vector<std::string>& columns, const Conversation& conversation, RowIssue& bad) const {
    if (kind_ == SwiftRowKind::messages || !options_.auto_columns) return;
    const bool asks = bad.problem == RowProblem::empty_response && !conversation.messages.empty() &&
                      conversation.messages.back().role == "user";
    if (asks) bad = {RowProblem::columns, response_hint(by_given_names(columns), automatic_columns(kind_, options_.system_role))};
  }

  // Columns renamed by --columns; automatic names follow later.
  std::vector<std::string> by_given_names(const std::vector<std::string>& columns) const {
    return info_.renamed(given_.renamed(columns));
  }

  RowCheck fill_rest(Json& fields, Conversation& conversation, const std::string& where) const {
    if (auto bad = read_media(take_column(fields, "images"), "images", conversation.images)) return bad;
    if (auto bad = read_media(take_column(fields, "videos"), "videos", conversation.videos)) return bad;
    if (auto bad = read_media(take_column(fields, "audios"), "audios", conversation.audios)) return bad;
    if (auto bad = read_tools(take_column(fields, "tools"), conversation.tools)) return bad;
    if (has_value(fields, "label")) conversation.label = read_label(fields["label"]);
    if (auto bad = fill_rejected(fields, conversation, where)) return bad;
    if (!fields.empty()) conversation.extra = std::move(fields);
    return std::nullopt;
  }

  // The messages up to and including the last user message.
  static size_t response_start(const std::vector<Message>& messages) {
    for (size_t i = messages.size(); i-- > 0;)
      if (messages[i].role == "user") return i + 1;
    return 0;
  }

  RowCheck fill_rejected(Json& fields, Conversation& conversation, const std::string& where) const {
    if (Json list = take_column(fields, "rejected_messages"); !list.is_null()) {
      if (!conversation.tools.empty() && !has_value(fields, "rejected_tools")) fields["rejected_tools"] = Json::array();  // none
      return parse_rejected(list, 0, fields, conversation, where);
    }
    const char* column = has_value(fields, "rejected_response") ? "rejected_response" : "rejected";
    Json rejected = take_column(fields, "rejected_response");
    bool chosen_is_message = has_value(fields, "chosen") && fields["chosen"].is_object();
    if (rejected.is_null() && has_value(fields, "rejected")) {
      rejected = take_column(fields, "rejected");
      if (chosen_is_message)
        if (auto bad = append_message(take_column(fields, "chosen"), conversation.messages, where)) return bad;
    }
    if (rejected.is_null()) {  // a pair may differ in its media or tools alone
      if (has_rejected_columns(fields)) conversation.rejected = conversation.messages;
      return std::nullopt;
    }
    size_t start = response_start(conversation.messages);
    if (rejected.is_array()) {
      for (const auto& message : rejected)
        if (!message.is_object())
          return row_issue(RowProblem::preference, "\"{}\" is a list that holds {}; expected text or messages", column,
                           type_word(message));
      bool whole = std::any_of(rejected.begin(), rejected.end(), [](const Json& m) {
        return m.is_object() && (m.value("role", Json()) == "user" || m.value("from", Json()) == "human");
      });
      return parse_rejected(rejected, whole ? 0 : start, fields, conversation, where);
    }
    conversation.rejected.assign(conversation.messages.begin(), conversation.messages.begin() + static_cast<long>(start));
    if (rejected.is_object()) return append_message(rejected, conversation.rejected, where);
    if (!rejected.is_string())
      return row_issue(RowProblem::preference, "\"{}\" is {}; expected text or messages", column, type_word(rejected));
    conversation.rejected.push_back({"assistant", rejected.get<std::string>(), {}, {}, nullptr});
    return std::nullopt;
  }

  RowCheck append_message(const Json& message, std::vector<Message>& to, const std::string& where) const {
    auto parsed = parse_messages(Json::array({message}), std::nullopt, options_, where);
    if (!parsed) return RowIssue{problem_of(parsed.error()), parsed.error()};
    std::move(parsed->messages.begin(), parsed->messages.end(), std::back_inserter(to));
    return std::nullopt;
  }

  // After the first `shared` messages of the row. Media of content parts become columns.
  RowCheck parse_rejected(const Json& list, size_t shared, Json& fields, Conversation& conversation,
                          const std::string& where) const {
    auto parsed = parse_messages(list, std::nullopt, options_, where);
    if (!parsed) return RowIssue{problem_of(parsed.error()), parsed.error()};
    conversation.rejected.assign(conversation.messages.begin(), conversation.messages.begin() + static_cast<long>(shared));
    std::move(parsed->messages.begin(), parsed->messages.end(), std::back_inserter(conversation.rejected));
    const std::vector<std::string>* own[] = {&parsed->images, &parsed->videos, &parsed->audios};
    for (size_t i = 0; i < std::size(kRejectedMedia); ++i) {
      if (parsed->without_source.contains(kRejectedMedia[i].kind) && (conversation.*kRejectedMedia[i].media).empty() &&
          !has_value(fields, kRejectedMedia[i].column))
        return part_without_source(kRejectedMedia[i].kind);
      auto media = shared > 0 ? conversation.*kRejectedMedia[i].media : std::vector<std::string>();
      media.insert(media.end(), own[i]->begin(), own[i]->end());
      if (!own[i]->empty() && media != conversation.*kRejectedMedia[i].media && !has_value(fields, kRejectedMedia[i].column))
        fields[kRejectedMedia[i].column] = media;
    }
    if (shared == 0 && has_rejected_media(fields))  // messages of their own have no other media
      for (const auto& kind : kRejectedMedia)
        if (!has_value(fields, kind.column)) fields[kind.column] = Json::array();
    return std::nullopt;
  }

  RowCheck check(const Conversation& conversation) const {
    if (auto bad = check_messages(conversation.messages, options_.demands)) return bad;
    if (!conversation.rejected.empty())
      if (auto bad = check_messages(conversation.rejected, options_.demands)) return bad;
    return check_preference(conversation);
  }

  SwiftFormatOptions options_;
  ColumnRenaming given_, info_;
  SwiftRowKind kind_;
  ColumnRenaming automatic_;
  std::vector<std::string> present_;
};

}  // namespace

std::unique_ptr<RowFormat> swift_format(const SwiftFormatOptions& options, const std::vector<std::string>& columns) {
  return std::make_unique<SwiftFormat>(options, columns);
}

}  // namespace hone::data
