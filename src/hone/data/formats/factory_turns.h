// The message list of LLaMA-Factory's sharegpt and openai formattings: tags name the roles; user and assistant strictly
// alternate.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/data/formats/checks.h"

namespace hone::data {

class FactoryTurns {
 public:
  explicit FactoryTurns(const FactoryFormatOptions& options) : options_(options) {}

  RowCheck read(const Json& list);
  std::vector<Message>& messages() { return messages_; }
  const std::optional<std::string>& system() const { return system_; }
  // Adds the message object of a chosen or rejected column.
  RowCheck append_response(const Json& message, std::string_view column, std::vector<Message>& to) const;

 private:
  struct Turn {
    std::string role, content;
  };
  RowCheck read_turn(const Json& message, size_t index, Turn& out) const;
  std::string canonical(const std::string& tag) const;  // empty for an unknown tag
  void add(Turn turn);
  void flush_results();
  RowCheck check_order() const;

  const FactoryFormatOptions& options_;
  std::vector<Message> messages_;
  std::vector<std::string> results_;  // openai: consecutive tool results become one message
  std::optional<std::string> system_;
};

}  // namespace hone::data
