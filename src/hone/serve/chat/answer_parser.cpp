#include "hone/serve/chat/answer_parser.h"

#include <algorithm>
#include <utility>

namespace hone::serve {
namespace {

constexpr std::string_view kThink = "<think>", kThinkEnd = "</think>", kCall = "<tool_call>", kCallEnd = "</tool_call>",
                           kPython = "<|python_tag|>";
constexpr std::string_view kBlanks = " \n\r\t";

bool begins(std::string_view whole, std::string_view part) { return whole.size() > part.size() && whole.starts_with(part); }

// Length of the longest end of `text` that `tag` begins with.
size_t overlap(std::string_view text, std::string_view tag) {
  for (size_t size = std::min(text.size(), tag.size() - 1); size > 0; --size)
    if (text.ends_with(tag.substr(0, size))) return size;
  return 0;
}

void trim_left(std::string& text) { text.erase(0, std::min(text.find_first_not_of(kBlanks), text.size())); }

size_t trailing_blanks(std::string_view text) {
  auto last = text.find_last_not_of(kBlanks);
  return last == text.npos ? text.size() : text.size() - last - 1;
}

}  // namespace

AnswerParser::AnswerParser(const Config& config)
    : config_(config), state_(config.begins_thinking && config.split_thoughts ? State::before_thought : State::start) {
  if (config.tools == ToolFormat::only_call) begin_call("");
}

std::vector<Delta> AnswerParser::push(std::string_view piece) {
  held_ += piece;
  std::vector<Delta> out;
  while (!held_.empty() && advance(out)) {
  }
  return out;
}

std::vector<Delta> AnswerParser::finish() {
  std::vector<Delta> out;
  if (state_ == State::call) announced_ ? void(torn_call_ = std::exchange(call_text_, {})) : give_up_call(out);
  if (state_ == State::thought)
    emit(Delta::Kind::thought, std::exchange(held_, {}), out);
  else if (state_ != State::call && state_ != State::behind_call)
    emit(Delta::Kind::text, std::exchange(held_, {}), out);
  return out;
}

void AnswerParser::emit(Delta::Kind kind, std::string text, std::vector<Delta>& out) {
  if (text.empty()) return;
  if (!out.empty() && out.back().kind == kind && kind != Delta::Kind::call && out.back().call == calls_)
    out.back().text += text;
  else
    out.push_back({kind, std::move(text), calls_});
}

bool AnswerParser::advance(std::vector<Delta>& out) {
  switch (state_) {
    case State::start:
      return leave_start();
    case State::before_thought:
    case State::before_text:  // the blanks there are layout
      trim_left(held_);
      if (!held_.empty()) state_ = state_ == State::before_text ? State::text : State::thought;
      return !held_.empty();
    case State::thought:
      return read_thought(out);
    case State::text:
      return read_text(out);
    case State::call:
      return read_call(out);
    case State::behind_call:
      return read_behind_call();
  }
  return false;
}

// An answer may begin with a thought; only there is <think> more than text.
bool AnswerParser::leave_start() {
  std::string_view text = held_;
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  if (config_.split_thoughts && (text.empty() || begins(kThink, text))) return false;
  if (config_.split_thoughts && text.starts_with(kThink)) {
    held_ = std::string(text.substr(kThink.size()));
    state_ = State::before_thought;
    return true;
  }
  state_ = State::text;
  return true;
}

bool AnswerParser::read_thought(std::vector<Delta>& out) {
  if (auto end = held_.find(kThinkEnd); end != std::string::npos) {
    auto thought = held_.substr(0, end);
    thought.resize(thought.size() - trailing_blanks(thought));
    emit(Delta::Kind::thought, std::move(thought), out);
    held_.erase(0, end + kThinkEnd.size());
    state_ = State::before_text;
    return true;
  }
  size_t tag = overlap(held_, kThinkEnd);
  size_t keep = tag + trailing_blanks(std::string_view(held_).substr(0, held_.size() - tag));
  emit(Delta::Kind::thought, held_.substr(0, held_.size() - keep), out);
  held_.erase(0, held_.size() - keep);
  return false;
}

bool AnswerParser::read_text(std::vector<Delta>& out) {
  if (config_.tools == ToolFormat::llama && text_allowed_calls_) {
    std::string_view text = held_;
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    if (text.empty() || begins(kPython, text)) return false;
    text_allowed_calls_ = false;
    bool tagged = text.starts_with(kPython);
    if (tagged || text[0] == '{') {
      held_ = std::string(text.substr(tagged ? kPython.size() : 0));
      begin_call(tagged ? std::string(kPython) : "");
      return !held_.empty();
    }
  }
  if (config_.tools != ToolFormat::hermes) {
    emit(Delta::Kind::text, std::exchange(held_, {}), out);
    return false;
  }
  auto call = held_.find(kCall);
  size_t tag = call == std::string::npos ? overlap(held_, kCall) : 0;
  auto before = std::string_view(held_).substr(0, call == std::string::npos ? held_.size() - tag : call);
  before.remove_suffix(trailing_blanks(before));  // blanks before a call are not part of the answer
  emit(Delta::Kind::text, std::string(before), out);
  held_.erase(0, call == std::string::npos ? before.size() : call + kCall.size());
  if (call == std::string::npos) return false;
  begin_call(std::string(kCall));
  return true;
}

void AnswerParser::begin_call(std::string marker) {
  state_ = State::call;
  scanner_.emplace();
  call_text_ = std::move(marker);
  announced_ = false;
}

// Llama writes calls without a mark around them, and so may stand an answer that merely looks like one.
bool AnswerParser::is_answer_in_json() const {
  if (config_.tools != ToolFormat::llama || call_text_.starts_with(kPython) || !scanner_->named()) return false;
  bool bare = scanner_->state() == CallScanner::State::done && !scanner_->with_arguments();
  return bare || std::ranges::find(config_.offered, scanner_->name()) == config_.offered.end();
}

// A call is told of once its arguments begin: what is cut off before is text.
bool AnswerParser::read_call(std::vector<Delta>& out) {
  size_t used = scanner_->push(held_);
  call_text_ += held_.substr(0, used);
  held_.erase(0, used);
  bool done = scanner_->state() == CallScanner::State::done;
  if (!announced_ && is_answer_in_json()) {
    give_up_call(out);
    return true;
  }
  if (scanner_->named() && (scanner_->with_arguments() || done) && !announced_) {
    emit(Delta::Kind::call, scanner_->name(), out);
    announced_ = true;
  }
  if (announced_) emit(Delta::Kind::arguments, scanner_->take_arguments(), out);
  if (scanner_->state() == CallScanner::State::open) return false;
  if (!announced_) {
    give_up_call(out);
    return true;
  }
  ++calls_;
  state_ = State::behind_call;
  return true;
}

// Looks for the next call; whatever else stands between calls is layout.
bool AnswerParser::read_behind_call() {
  if (config_.tools == ToolFormat::only_call || config_.one_call) return held_.clear(), false;
  if (config_.tools == ToolFormat::llama) {
    auto next = held_.find('{');
    if (next == std::string::npos) return held_.clear(), false;
    held_.erase(0, next);
    begin_call("");
    return true;
  }
  auto end = held_.find(kCallEnd);
  if (end == std::string::npos) {
    held_.erase(0, held_.size() - overlap(held_, kCallEnd));
    return false;
  }
  held_.erase(0, end + kCallEnd.size());
  state_ = State::before_text;
  return !held_.empty();
}

void AnswerParser::give_up_call(std::vector<Delta>& out) {
  state_ = State::text;
  text_allowed_calls_ = false;
  emit(Delta::Kind::text, std::exchange(call_text_, {}), out);
}

}  // namespace hone::serve
