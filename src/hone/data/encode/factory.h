// LLaMA-Factory's encoder: each turn is a (prompt, response) pair of slots that are tokenized one by one; the pairs share the
// length budget.
#pragma once
#include "hone/data/encode/encoder.h"
#include "hone/text/templates/template_tables.h"
#include "hone/text/templates/tool_format.h"

namespace hone::data {

class FactoryEncoder : public Encoder {
 public:
  FactoryEncoder(EncodeConfig config, std::shared_ptr<const text::Tokenizer> tokenizer, text::FactoryTemplate chat_template);
  std::vector<std::string> stop_words() const override { return template_.stop_words; }
  text::TokenId eos() const override { return eos_; }

 protected:
  Sample encode_untruncated(const Conversation& conversation) const override;
  std::pair<Sample, Sample> encode_untruncated_pair(const Conversation& conversation) const override;
  std::vector<text::TokenId> encode_generation_prompt(const Conversation& conversation) const override;

 private:
  using Ids = std::vector<text::TokenId>;
  struct Dialogue {
    std::string system, tools;
    std::vector<Message> messages;  // user or tool at even positions, assistant or tool_call at odd ones
  };
  struct OneTurn {
    Ids prompt, response;
  };

  Dialogue arrange(const Conversation& conversation) const;
  Dialogue arrange_answered(const Conversation& conversation) const;  // the last message is the assistant's
  std::vector<Ids> encode_messages(const Dialogue& dialogue) const;
  std::vector<std::pair<Ids, Ids>> encode_turns(Dialogue dialogue) const;
  OneTurn encode_last_turn(Dialogue dialogue) const;
  OneTurn last_turn(const Conversation& conversation) const;  // for training, with its end
  int64_t length_limit() const { return config_.max_length > 0 ? config_.max_length : INT64_MAX / 4; }
  Sample join_turns(std::vector<std::pair<Ids, Ids>> turns, const std::vector<Message>& messages) const;
  Sample encode_text(const std::string& text) const;
  Sample labelled(const Ids& prompt, const Ids& response, int64_t prompt_length, int64_t response_length) const;

  void append(const text::TemplateSlots& pieces, const std::string& content, size_t round, Ids& ids) const;
  bool reasoning() const;
  bool has_reasoning(const std::string& content) const;
  std::string without_reasoning(const std::string& content) const;

  text::FactoryTemplate template_;
  const text::ToolFormat *tools_format_, *function_format_;
  text::TokenId eos_;
  Ids empty_reasoning_;
};

// The slots of a model's own chat template, found by rendering small conversations, as LLaMA-Factory does if no template is
// named.
Result<text::FactoryTemplate> parse_chat_template(const text::Tokenizer& tokenizer);

}  // namespace hone::data
