#include "hone/serve/openai/responses.h"

namespace hone::serve {

using Kind = Delta::Kind;

ResponseEvents::ResponseEvents(const ChatTask& task, const ServedModel& served, const std::string& model)
    : frame_(task, model), bytes_(*served.tokenizer) {}

void ResponseEvents::send(std::string_view type, Json fields, std::string& out) {
  Json body{{"type", type}, {"sequence_number", next_++}};
  body.update(fields);
  out += event(type, body);
}

void ResponseEvents::open(const ChoiceStream&, std::string& out) {
  for (auto type : {"response.created", "response.in_progress"})
    send(type, {{"response", frame_.json("in_progress", Json::array(), nullptr)}}, out);
}

Json ResponseEvents::item(const Choice& choice, std::string_view status) const {
  bool begins = status == "in_progress";
  if (kind_ == Kind::reasoning) return OutputItems::thought(id_, begins ? "" : text_, status);
  if (kind_ == Kind::text) return OutputItems::message(id_, text_, logprobs_, status);
  auto call = choice.calls[call_];
  call.arguments = begins ? "" : text_;
  return OutputItems::call(id_, call, status);
}

Json ResponseEvents::part() const {
  if (kind_ == Kind::reasoning) return {{"type", "reasoning_text"}, {"text", text_}};
  return {{"type", "output_text"}, {"text", text_}, {"annotations", Json::array()}, {"logprobs", logprobs_}};
}

void ResponseEvents::begin_item(Kind kind, const Choice& choice, size_t call, std::string& out) {
  kind_ = kind;
  call_ = call;
  id_ = fresh_id(kind == Kind::reasoning ? "rs_" : kind == Kind::text ? "msg_" : "fc_");
  text_.clear();
  logprobs_ = Json::array();
  send("response.output_item.added", {{"output_index", done_.size()}, {"item", item(choice, "in_progress")}}, out);
  if (kind == Kind::arguments) return;
  send("response.content_part.added", {{"item_id", id_}, {"output_index", done_.size()}, {"content_index", 0}, {"part", part()}},
       out);
}

void ResponseEvents::end_item(const Choice& choice, std::string_view status, std::string& out) {
  if (id_.empty()) return;
  Json location{{"item_id", id_}, {"output_index", done_.size()}};
  auto with = [&](Json fields) {
    fields.update(location);
    return fields;
  };
  if (kind_ == Kind::arguments) {
    send("response.function_call_arguments.done", with({{"name", choice.calls[call_].name}, {"arguments", text_}}), out);
  } else {
    location["content_index"] = 0;
    if (kind_ == Kind::text)
      send("response.output_text.done", with({{"text", text_}, {"logprobs", logprobs_}}), out);
    else
      send("response.reasoning_text.done", with({{"text", text_}}), out);
    send("response.content_part.done", with({{"part", part()}}), out);
  }
  auto finished = item(choice, status);
  send("response.output_item.done", {{"output_index", done_.size()}, {"item", finished}}, out);
  done_.push_back(std::move(finished));
  id_.clear();
}

void ResponseEvents::add(const Delta& delta, const Choice& choice, Json logprobs, std::string& out) {
  auto kind = delta.kind == Kind::call ? Kind::arguments : delta.kind;
  if (id_.empty() || kind != kind_ || delta.kind == Kind::call) {
    end_item(choice, "completed", out);
    begin_item(kind, choice, delta.call, out);
  }
  if (delta.kind == Kind::call) return;
  text_ += delta.text;
  Json fields{{"item_id", id_}, {"output_index", done_.size()}, {"delta", delta.text}};
  if (kind == Kind::arguments) return send("response.function_call_arguments.delta", std::move(fields), out);
  fields["content_index"] = 0;
  if (kind == Kind::reasoning) return send("response.reasoning_text.delta", std::move(fields), out);
  for (const auto& entry : logprobs) logprobs_.push_back(entry);
  fields["logprobs"] = std::move(logprobs);
  send("response.output_text.delta", std::move(fields), out);
}

void ResponseEvents::on_delta(const ChoiceStream::ChoiceDelta& news, const ChoiceStream& choices, std::string& out) {
  Json logprobs = Json::array();
  for (const auto& position : news.output->logprobs) logprobs.push_back(chat_logprob(position, bytes_));
  for (const auto& delta : news.deltas) {
    bool text = delta.kind == Kind::text;
    add(delta, choices.at(0), text ? std::exchange(logprobs, Json::array()) : Json::array(), out);
  }
}

void ResponseEvents::close(const ChoiceStream& choices, std::string& out) {
  const auto& choice = choices.at(0);
  if (id_.empty() && done_.empty()) begin_item(Kind::text, choice, 0, out);
  bool torn = kind_ == Kind::arguments && choice.parser.calls() <= call_;
  end_item(choice, torn ? "incomplete" : status_of(choice), out);
  auto status = status_of(choice);
  send(status == "completed" ? "response.completed" : "response.incomplete",
       {{"response", frame_.json(status, done_, &choices.usage())}}, out);
}

void ResponseEvents::fail(const ApiError& problem, std::string& out) {
  send("error",
       {{"code", problem.code}, {"message", problem.message}, {"param", problem.param.empty() ? Json() : Json(problem.param)}},
       out);
}

}  // namespace hone::serve
