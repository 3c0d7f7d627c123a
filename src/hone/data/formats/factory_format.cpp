// Rows as LLaMA-Factory reads them: dataset_info.json assigns the columns; nothing is guessed.
#include <algorithm>
#include <filesystem>

#include "hone/data/formats/checks.h"
#include "hone/data/formats/column_hints.h"
#include "hone/data/formats/factory_turns.h"
#include "hone/data/formats/format.h"
#include "hone/data/readers/csv.h"
#include "hone/media/source_scheme.h"

namespace hone::data {
namespace {

using Formatting = FactoryFormatOptions::Formatting;

class FactoryFormat : public RowFormat {
 public:
  explicit FactoryFormat(const FactoryFormatOptions& options) : options_(options) {}

  Result<Conversation> convert(Row row) const override {
    Conversation conversation;
    conversation.origin = row.origin;
    std::vector<std::string> columns;
    for (const auto& field : row.fields.items()) columns.push_back(field.key());
    auto bad =
        options_.formatting == Formatting::alpaca ? fill_alpaca(row.fields, conversation) : fill_turns(row.fields, conversation);
    if (!bad) bad = fill_rest(row.fields, conversation);
    if (!bad && options_.demands.pretraining) make_pretraining_text(conversation);
    if (!bad && !options_.demands.pretraining) bad = check(conversation);
    if (bad) explain_columns(columns, conversation, *bad);
    if (bad) return row_error(bad->problem, row.origin.str(), bad->details);
    return conversation;
  }

 private:
  // LLaMA-Factory infers no columns: a wrong column name is corrected in dataset_info.json.
  void explain_columns(const std::vector<std::string>& columns, const Conversation& conversation, RowIssue& bad) const {
    const bool asks = bad.problem == RowProblem::empty_response && !conversation.messages.empty() &&
                      conversation.messages.back().role == "user";
    if (options_.formatting != Formatting::alpaca || (!asks && bad.problem != RowProblem::columns)) return;
    if (auto other = separator_hint(columns); !other.empty()) {
      bad = {RowProblem::columns, other};
      return;
    }
    const auto& missing = asks ? options_.response : options_.prompt;
    if (std::ranges::find(columns, missing) != columns.end()) return;
    if (missing.empty()) {  // an entry's "columns" unset those that it does not list
      bad = {RowProblem::columns, fmt::format("\"columns\" in dataset_info.json gives no column as \"{}\"; the row has {}",
                                              asks ? "response" : "prompt", column_list(columns))};
      return;
    }
    bad = {RowProblem::columns,
           fmt::format("no column \"{}\", only {}; dataset_info.json says which one holds what: \"columns\": {{\"{}\": \"{}\"}}",
                       missing, column_list(columns), asks ? "response" : "prompt",
                       columns.empty() ? "…"
                       : asks          ? columns.back()
                                       : columns.front())};
  }

  static RowCheck read_text(const Json& value, const std::string& column, std::string& out) {
    if (value.is_null()) return std::nullopt;
    if (!value.is_string()) return row_issue(RowProblem::type, "\"{}\" is {}; expected text", column, type_word(value));
    out = value.get<std::string>();
    return std::nullopt;
  }
  Json take(Json& fields, const std::string& column) const { return column.empty() ? Json() : take_column(fields, column); }

  RowCheck fill_alpaca(Json& fields, Conversation& conversation) const {
    auto& messages = conversation.messages;
    std::string system, prompt, query;
    if (auto bad = read_text(take(fields, options_.system), options_.system, system)) return bad;
    if (!system.empty()) messages.push_back({"system", system, {}, {}, nullptr});
    if (auto bad = fill_history(take(fields, options_.history), messages)) return bad;
    if (!options_.prompt.empty() && !fields.contains(options_.prompt))
      return row_issue(RowProblem::columns, "no column \"{}\"; expected the prompt there", options_.prompt);
    if (auto bad = read_text(take(fields, options_.prompt), options_.prompt, prompt)) return bad;
    if (auto bad = read_text(take(fields, options_.query), options_.query, query)) return bad;
    messages.push_back({"user", prompt.empty() || query.empty() ? prompt + query : prompt + "\n" + query, {}, {}, nullptr});
    if (options_.demands.pretraining) return std::nullopt;
    return options_.ranking ? fill_alpaca_pair(fields, conversation) : fill_alpaca_response(fields, conversation);
  }

  RowCheck fill_history(const Json& history, std::vector<Message>& messages) const {
    if (!history.is_array()) return std::nullopt;
    for (const auto& pair : history) {
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string())
        return row_issue(RowProblem::type, "\"{}\" holds {}; expected pairs [query, response]", options_.history,
                         type_word(pair));
      messages.push_back({"user", pair[0].get<std::string>(), {}, {}, nullptr});
      messages.push_back({"assistant", pair[1].get<std::string>(), {}, {}, nullptr});
    }
    return std::nullopt;
  }

  RowCheck fill_alpaca_pair(Json& fields, Conversation& conversation) const {
    Json chosen = take(fields, options_.chosen), rejected = take(fields, options_.rejected);
    if (!chosen.is_string() || !rejected.is_string())
      return row_issue(RowProblem::preference, "chosen is {} and rejected is {}; expected two texts", type_word(chosen),
                       type_word(rejected));
    conversation.rejected = conversation.messages;
    conversation.messages.push_back({"assistant", chosen.get<std::string>(), {}, {}, nullptr});
    conversation.rejected.push_back({"assistant", rejected.get<std::string>(), {}, {}, nullptr});
    return std::nullopt;
  }

  RowCheck fill_alpaca_response(Json& fields, Conversation& conversation) const {
    Json response = take(fields, options_.response);
    if (response.is_null()) return std::nullopt;
    if (!response.is_string())
      return row_issue(RowProblem::type, "\"{}\" is {}; expected text", options_.response, type_word(response));
    conversation.messages.push_back({"assistant", response.get<std::string>(), {}, {}, nullptr});
    return std::nullopt;
  }

  RowCheck fill_turns(Json& fields, Conversation& conversation) const {
    FactoryTurns turns(options_);
    if (auto bad = turns.read(take(fields, options_.messages))) return bad;
    std::string system;
    if (auto bad = read_text(take(fields, options_.system), options_.system, system)) return bad;
    if (turns.system()) system = *turns.system();
    if (auto bad = read_tools(take(fields, options_.tools), conversation.tools)) return bad;
    if (options_.formatting == Formatting::openai) system = openai_system(system, !conversation.tools.empty());
    if (!system.empty()) conversation.messages.push_back({"system", system, {}, {}, nullptr});
    for (auto& message : turns.messages()) conversation.messages.push_back(std::move(message));
    return options_.ranking && !options_.demands.pretraining ? fill_pair(turns, fields, conversation) : std::nullopt;
  }

  RowCheck fill_pair(const FactoryTurns& turns, Json& fields, Conversation& conversation) const {
    conversation.rejected = conversation.messages;
    if (auto bad = turns.append_response(take(fields, options_.chosen), "chosen", conversation.messages)) return bad;
    return turns.append_response(take(fields, options_.rejected), "rejected", conversation.rejected);
  }

  // LLaMA-Factory's openai formatting changes a system text this way; kept because ids must match.
  static std::string openai_system(const std::string& system, bool has_tools) {
    const std::string off = "detailed thinking off";
    if (system.empty()) return has_tools ? "" : off;
    if (has_tools) return system + "\n";
    bool is_set = system.find("detailed thinking on") != system.npos || system.find(off) != system.npos;
    return is_set ? system : system + "\n" + off;
  }

  std::string in_media_dir(const std::string& path) const {
    std::error_code ignored;
    auto joined = std::filesystem::path(options_.media_dir) / media::normalized_source(path);
    return std::filesystem::is_regular_file(joined, ignored) ? joined.string() : path;
  }

  RowCheck fill_rest(Json& fields, Conversation& conversation) const {
    if (auto bad = read_media(take(fields, options_.images), "images", conversation.images)) return bad;
    if (auto bad = read_media(take(fields, options_.videos), "videos", conversation.videos)) return bad;
    if (auto bad = read_media(take(fields, options_.audios), "audios", conversation.audios)) return bad;
    for (auto* list : {&conversation.images, &conversation.videos, &conversation.audios})
      for (auto& path : *list) path = in_media_dir(path);
    if (conversation.tools.empty())
      if (auto bad = read_tools(take(fields, options_.tools), conversation.tools)) return bad;
    if (!options_.kto_tag.empty()) {
      conversation.label = read_label(take(fields, options_.kto_tag));
      if (!conversation.label)
        return row_issue(RowProblem::type, "\"{}\" is not a boolean; expected true or false", options_.kto_tag);
    }
    if (!fields.empty()) conversation.extra = std::move(fields);
    return std::nullopt;
  }

  static void make_pretraining_text(Conversation& conversation) {
    auto& messages = conversation.messages;
    size_t first = !messages.empty() && messages[0].role == "system" ? 1 : 0;
    conversation.messages = {Message{"assistant", first < messages.size() ? messages[first].content : "", {}, {}, nullptr}};
    conversation.plain_text = true;
  }

  RowCheck check(const Conversation& conversation) const {
    if (auto bad = check_messages(conversation.messages, options_.demands)) return bad;
    if (!conversation.rejected.empty())
      if (auto bad = check_messages(conversation.rejected, options_.demands)) return bad;
    return std::nullopt;
  }

  FactoryFormatOptions options_;
};

}  // namespace

std::unique_ptr<RowFormat> factory_format(const FactoryFormatOptions& options) {
  return std::make_unique<FactoryFormat>(options);
}

}  // namespace hone::data
