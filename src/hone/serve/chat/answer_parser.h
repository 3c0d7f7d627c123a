// The text of one answer, as it grows, split into what it is made of: thoughts, plain text, tool calls.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hone/serve/chat/call_scanner.h"

namespace hone::serve {

// How the model writes calls: none (text stays text), <tool_call>{…}</tool_call>, Llama 3's bare JSON behind an optional
// <|python_tag|>, or nothing but a call (when the output is held to that).
enum class ToolFormat { none, hermes, llama, only_call };

struct Delta {
  enum class Kind { text, thought, call, arguments };
  Kind kind;
  std::string text;  // of a call, its name
  size_t call = 0;   // which one, from 0
};

class AnswerParser {
 public:
  struct Config {
    ToolFormat tools = ToolFormat::none;
    bool split_thoughts = true;
    bool begins_thinking = false;  // the prompt has already opened the thought
    bool one_call = false;         // what follows the first call is dropped
    std::vector<std::string> offered;  // names that a call without a mark around it may have
  };
  explicit AnswerParser(const Config& config);

  std::vector<Delta> push(std::string_view piece);
  std::vector<Delta> finish();  // what was held back
  size_t calls() const { return calls_; }  // that are complete
  // A call that began and never ended, as it was written; "" before finish() and when there is none.
  const std::string& torn_call() const { return torn_call_; }

 private:
  enum class State { start, before_thought, thought, before_text, text, call, behind_call };
  bool advance(std::vector<Delta>& out);  // false: more text is needed
  bool leave_start();
  bool read_thought(std::vector<Delta>& out);
  bool read_text(std::vector<Delta>& out);
  bool read_call(std::vector<Delta>& out);
  bool read_behind_call();
  void emit(Delta::Kind kind, std::string text, std::vector<Delta>& out);
  void begin_call(std::string marker);
  bool is_answer_in_json() const;
  void give_up_call(std::vector<Delta>& out);

  Config config_;
  State state_;
  std::string held_;
  std::optional<CallScanner> scanner_;
  std::string call_text_;  // as written so far, in case it turns out to be no call
  std::string torn_call_;
  bool announced_ = false, text_allowed_calls_ = true;
  size_t calls_ = 0;
};

}  // namespace hone::serve
