// Splits generated text incrementally into reasoning, plain text and tool calls.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hone/serve/tool_parsers/tool_call_format.h"

namespace hone::serve {

struct Delta {
  enum class Kind { text, reasoning, call, arguments };
  Kind kind;
  std::string text;  // of a call, its name
  size_t call = 0;   // which one, from 0
};

class OutputParser {
 public:
  struct Config {
    const ToolCallFormat* calls = nullptr;  // how the model writes them; null: text stays text
    bool separate_reasoning = true;
    bool begins_thinking = false;                          // the prompt has already opened the thought
    bool one_call = false;                                 // text after the first call is dropped
    bool in_call = false;                                  // the prompt has already opened the only call
    std::shared_ptr<const ToolSchemas> offered = nullptr;  // what may be called
  };
  explicit OutputParser(const Config& config);

  std::vector<Delta> push(std::string_view piece);
  std::vector<Delta> finish();             // text that was held back
  size_t calls() const { return calls_; }  // that are complete
  // An unfinished call, as written; "" before finish() and if there is none.
  const std::string& incomplete_call() const { return incomplete_call_; }

 private:
  enum class State { start, before_reasoning, reasoning, before_text, text, before_call, call, behind_call };
  bool advance(std::vector<Delta>& out);  // false: more text is needed
  bool leave_start();
  bool read_reasoning(std::vector<Delta>& out);
  bool read_text(std::vector<Delta>& out);
  bool begin_bare_call();
  bool choose_reader(std::vector<Delta>& out);
  bool read_call(std::vector<Delta>& out);
  bool read_after_call();
  void emit(Delta::Kind kind, std::string text, std::vector<Delta>& out);
  void begin_call(std::string_view marker);
  bool is_output_json() const;
  void emit_call(std::vector<Delta>& out);
  void give_up_call(std::vector<Delta>& out);

  Config config_;
  State state_;
  std::string held_;
  std::unique_ptr<ToolCallParser> reader_;
  std::string call_text_;   // as written so far, in case it turns out to be no call
  size_t marker_size_ = 0;  // of it, the mark
  std::string incomplete_call_;
  bool call_reported_ = false, marked_ = false, next_seen_ = false, bare_possible_ = true;
  size_t calls_ = 0;
};

}  // namespace hone::serve
