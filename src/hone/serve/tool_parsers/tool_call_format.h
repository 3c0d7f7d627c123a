// The formats in which models write tool calls, as one table.
#pragma once
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "hone/serve/tool_parsers/tool_call_parser.h"

namespace hone::serve {

struct ToolCallFormat {
  std::string_view name;
  std::vector<std::string_view> opens;  // marks, one of which precedes a call
  bool bare = false;                    // a completion's first characters may be a call without a mark
  bool objects = false;                 // {"name": …, "arguments": …} is a call here
  std::string_view next;                // precedes each of several calls inside one mark
  bool needs_next = false;              // and before the first
  std::string_view close;               // ends what a mark began; "" when each call has its own end
  std::string_view result;              // begins a result, which is not for the model to write
  // Parses calls that are not such objects; null if there are none.
  std::unique_ptr<ToolCallParser> (*reader)(const ToolSchemas& known) = nullptr;
  // How a forced call is written: the end of the prompt, and then for each function a name with its arguments.
  std::string_view forced_lead;
  std::string_view object_key = "arguments";  // of objects
  struct Written {
    std::string_view before_arguments, key_open, key_close, value_close, end;  // key_close ends where the value begins
    bool python = false;
  };
  Written forced = {};
};

// Null for an unknown name. Names are those of ms-swift's agent templates and LLaMA-Factory's tool formats.
const ToolCallFormat* find_call_syntax(std::string_view name);
// The format that a chat template contains; Hermes' if none is recognized.
const ToolCallFormat& call_syntax_in(std::string_view chat_template);

std::unique_ptr<ToolCallParser> json_call_reader();

}  // namespace hone::serve
