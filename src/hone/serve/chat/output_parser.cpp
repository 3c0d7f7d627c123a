#include "hone/serve/chat/output_parser.h"

#include <algorithm>
#include <utility>

namespace hone::serve {
namespace {

constexpr std::string_view kThink = "<think>", kThinkEnd = "</think>";
constexpr std::string_view kBlanks = " \n\r\t", kListLayout = "[]; \n\r\t";
const ToolSchemas kNothingOffered;

bool begins(std::string_view whole, std::string_view part) { return whole.size() > part.size() && whole.starts_with(part); }

// Length of the longest suffix of `text` that is a prefix of `tag`.
size_t overlap(std::string_view text, std::string_view tag) {
  for (size_t size = std::min(text.size(), tag.size() - 1); size > 0; --size)
    if (text.ends_with(tag.substr(0, size))) return size;
  return 0;
}

struct Mark {
  size_t at = std::string::npos;
  std::string_view text;
};
// The first of `marks` in `text`; if none, `held` is the length of the suffix that may become one.
Mark first_mark(std::string_view text, const std::vector<std::string_view>& marks, size_t& held) {
  Mark first;
  held = 0;
  for (auto mark : marks) {
    if (mark.empty()) continue;
    if (auto at = text.find(mark); at < first.at) first = {at, mark};
    held = std::max(held, overlap(text, mark));
  }
  return first;
}

void trim_left(std::string& text) { text.erase(0, std::min(text.find_first_not_of(kBlanks), text.size())); }

size_t trailing_blanks(std::string_view text) {
  auto last = text.find_last_not_of(kBlanks);
  return last == text.npos ? text.size() : text.size() - last - 1;
}

}  // namespace

OutputParser::OutputParser(const Config& config)
    : config_(config), state_(config.begins_thinking && config.separate_reasoning ? State::before_reasoning : State::start) {
  if (!config_.offered) config_.offered = std::make_shared<const ToolSchemas>(kNothingOffered);
  if (!config_.in_call) return;
  begin_call("");
  marked_ = true;
  next_seen_ = !config_.calls->next.empty() && config_.calls->forced_lead.ends_with(config_.calls->next);
}

std::vector<Delta> OutputParser::push(std::string_view piece) {
  held_ += piece;
  std::vector<Delta> out;
  while (!held_.empty() && advance(out)) {
  }
  return out;
}

std::vector<Delta> OutputParser::finish() {
  std::vector<Delta> out;
  if (state_ == State::call) {
    reader_->end();
    if (reader_->state() == ToolCallParser::State::done) emit_call(out);
  }
  if (state_ == State::call) call_reported_ ? void(incomplete_call_ = std::exchange(call_text_, {})) : give_up_call(out);
  if (state_ == State::before_call) give_up_call(out);
  if (state_ == State::reasoning)
    emit(Delta::Kind::reasoning, std::exchange(held_, {}), out);
  else if (state_ != State::call && state_ != State::behind_call)
    emit(Delta::Kind::text, std::exchange(held_, {}), out);
  return out;
}

void OutputParser::emit(Delta::Kind kind, std::string text, std::vector<Delta>& out) {
  if (text.empty()) return;
  if (!out.empty() && out.back().kind == kind && kind != Delta::Kind::call && out.back().call == calls_)
    out.back().text += text;
  else
    out.push_back({kind, std::move(text), calls_});
}

bool OutputParser::advance(std::vector<Delta>& out) {
  switch (state_) {
    case State::start:
      return leave_start();
    case State::before_reasoning:
    case State::before_text:  // the blanks there are layout
      trim_left(held_);
      if (!held_.empty()) state_ = state_ == State::before_text ? State::text : State::reasoning;
      return !held_.empty();
    case State::reasoning:
      return read_reasoning(out);
    case State::text:
      return read_text(out);
    case State::before_call:
      return choose_reader(out);
    case State::call:
      return read_call(out);
    case State::behind_call:
      return read_after_call();
  }
  return false;
}

// A response may start with a think block; <think> is plain text elsewhere.
bool OutputParser::leave_start() {
  std::string_view text = held_;
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  if (config_.separate_reasoning && (text.empty() || begins(kThink, text))) return false;
  if (config_.separate_reasoning && text.starts_with(kThink)) {
    held_ = std::string(text.substr(kThink.size()));
    state_ = State::before_reasoning;
    return true;
  }
  state_ = State::text;
  return true;
}

bool OutputParser::read_reasoning(std::vector<Delta>& out) {
  if (auto end = held_.find(kThinkEnd); end != std::string::npos) {
    auto thought = held_.substr(0, end);
    thought.resize(thought.size() - trailing_blanks(thought));
    emit(Delta::Kind::reasoning, std::move(thought), out);
    held_.erase(0, end + kThinkEnd.size());
    state_ = State::before_text;
    return true;
  }
  size_t tag = overlap(held_, kThinkEnd);
  size_t keep = tag + trailing_blanks(std::string_view(held_).substr(0, held_.size() - tag));
  emit(Delta::Kind::reasoning, held_.substr(0, held_.size() - keep), out);
  held_.erase(0, held_.size() - keep);
  return false;
}

bool OutputParser::read_text(std::vector<Delta>& out) {
  if (!config_.calls) {
    emit(Delta::Kind::text, std::exchange(held_, {}), out);
    return false;
  }
  if (config_.calls->bare && bare_possible_) return begin_bare_call();
  size_t tag = 0;
  auto mark = first_mark(held_, config_.calls->opens, tag);
  bool found = mark.at != std::string::npos;
  auto before = std::string_view(held_).substr(0, found ? mark.at : held_.size() - tag);
  before.remove_suffix(trailing_blanks(before));  // white space before a call is not part of the response
  emit(Delta::Kind::text, std::string(before), out);
  held_.erase(0, found ? mark.at + mark.text.size() : before.size());
  if (found) begin_call(mark.text);
  return found;
}

// If calls need no marker, the start of the response may be one, unless a marker follows.
bool OutputParser::begin_bare_call() {
  std::string_view text = held_;
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  if (text.empty()) return false;
  for (auto open : config_.calls->opens)
    if (begins(open, text)) return false;
  bare_possible_ = false;
  if (std::ranges::none_of(config_.calls->opens, [&](auto open) { return text.starts_with(open); })) begin_call("");
  return true;
}

void OutputParser::begin_call(std::string_view marker) {
  state_ = State::before_call;
  reader_.reset();
  call_text_ = marker;
  call_reported_ = false;
  marker_size_ = marker.size();
  marked_ = !marker.empty();
  next_seen_ = !marker.empty() && marker == config_.calls->next;
}

// The text after a marker determines the format of the call.
bool OutputParser::choose_reader(std::vector<Delta>& out) {
  const auto& syntax = *config_.calls;
  size_t layout = std::min(held_.find_first_not_of(kListLayout), held_.size());
  call_text_ += held_.substr(0, layout);
  held_.erase(0, layout);
  if (held_.empty() || (!next_seen_ && begins(syntax.next, held_))) return false;
  bool next = !syntax.next.empty() && held_.starts_with(syntax.next);
  if (next && !next_seen_) {
    next_seen_ = true;
    call_text_ += syntax.next;
    held_.erase(0, syntax.next.size());
    return !held_.empty();
  }
  if (syntax.objects && held_[0] == '{')
    reader_ = json_call_reader();
  else if (syntax.reader && (next_seen_ || !syntax.needs_next))
    reader_ = syntax.reader(*config_.offered);
  if (reader_)
    state_ = State::call;
  else
    give_up_call(out);
  return true;
}

// Unmarked calls may be responses that merely look like calls.
bool OutputParser::is_output_json() const {
  if (marked_ || !config_.calls->bare || !reader_->named()) return false;
  bool empty = reader_->state() == ToolCallParser::State::done && !reader_->with_arguments();
  return empty || !config_.offered->contains(reader_->name());
}

// A call is reported once its arguments start; if truncated before, it is text.
void OutputParser::emit_call(std::vector<Delta>& out) {
  bool done = reader_->state() == ToolCallParser::State::done;
  if (reader_->named() && (reader_->with_arguments() || done) && !call_reported_) {
    emit(Delta::Kind::call, reader_->name(), out);
    call_reported_ = true;
  }
  if (call_reported_) emit(Delta::Kind::arguments, reader_->take_arguments(), out);
  if (reader_->state() == ToolCallParser::State::open || !call_reported_) return;
  ++calls_;
  state_ = State::behind_call;
}

bool OutputParser::read_call(std::vector<Delta>& out) {
  size_t used = reader_->push(held_);
  call_text_ += held_.substr(0, used);
  held_.erase(0, used);
  if (!call_reported_ && is_output_json()) {
    give_up_call(out);
    return true;
  }
  emit_call(out);
  if (reader_->state() == ToolCallParser::State::open) return false;
  if (!call_reported_) give_up_call(out);
  return true;
}

// Looks for the next call or the end of the calls; anything else is formatting.
bool OutputParser::read_after_call() {
  if (config_.in_call || config_.one_call) return held_.clear(), false;
  const auto& syntax = *config_.calls;
  if (syntax.close.empty() && !syntax.bare) {
    state_ = State::before_text;
    return true;
  }
  auto marks = syntax.opens;
  marks.insert(marks.end(), {syntax.next, syntax.close, syntax.objects ? "{" : ""});
  size_t tag = 0;
  auto mark = first_mark(held_, marks, tag);
  if (mark.at == std::string::npos) {
    held_.erase(0, held_.size() - tag);
    return false;
  }
  bool object = mark.text == "{";
  held_.erase(0, mark.at + (object ? 0 : mark.text.size()));
  if (mark.text == syntax.close)
    state_ = State::before_text;
  else
    begin_call(object ? "" : mark.text);
  return !held_.empty();
}

// The marker was text after all; another may follow.
void OutputParser::give_up_call(std::vector<Delta>& out) {
  state_ = State::text;
  bare_possible_ = false;
  emit(Delta::Kind::text, call_text_.substr(0, marker_size_), out);
  held_.insert(0, std::exchange(call_text_, {}), marker_size_);
}

}  // namespace hone::serve
