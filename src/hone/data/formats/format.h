// From a row's columns to a Conversation. One format per dataset, chosen when it is opened; convert() is thread-safe and never
// throws.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hone/data/conversation.h"

namespace hone::data {

class RowFormat {
 public:
  virtual ~RowFormat() = default;
  virtual Result<Conversation> convert(Row row) const = 0;
};

// Requirements of the method on every row.
struct RowRequirements {
  bool pretraining = false;   // one plain text
  bool prompts_only = false;  // no response needed
};

// Options of ms-swift's row format.
struct SwiftFormatOptions {
  std::map<std::string, std::string> columns;       // source column -> canonical column; "_" throws it away
  std::map<std::string, std::string> info_columns;  // the same, out of a custom dataset info entry; applied after `columns`
  std::vector<std::string> role_keys = {"role", "from"}, content_keys = {"content", "value"};
  std::vector<std::string> user_roles = {"user", "human"}, assistant_roles = {"assistant", "gpt", "bot"};
  std::string system_role = "system", inner_key;
  bool auto_columns = true;
  bool messages_only = false;  // the entry's formatting: rows hold messages
  RowRequirements demands;
};
std::unique_ptr<RowFormat> swift_format(const SwiftFormatOptions& options, const std::vector<std::string>& columns);

// One entry of LLaMA-Factory's dataset_info.json: which column holds what. An empty name means unset.
struct FactoryFormatOptions {
  enum class Formatting { alpaca, sharegpt, openai };
  Formatting formatting = Formatting::alpaca;
  bool ranking = false;
  std::string prompt = "instruction", query = "input", response = "output", history, messages = "conversations";
  std::string system, tools, images, videos, audios, chosen, rejected, kto_tag;
  std::string role_tag = "from", content_tag = "value", user_tag = "human", assistant_tag = "gpt";
  std::string observation_tag = "observation", function_tag = "function_call", system_tag = "system";
  std::string media_dir;
  RowRequirements demands;
};
std::unique_ptr<RowFormat> factory_format(const FactoryFormatOptions& options);

}  // namespace hone::data
