// The model's own chat template. Responses are the template's {% generation %} blocks, or are found by rendering prefixes of the
// conversation.
#pragma once
#include <map>

#include "hone/data/encode/encoder.h"
#include "hone/text/chat_template.h"
#include "hone/text/templates/agent_format.h"

namespace hone::data {

class JinjaEncoder : public Encoder {
 public:
  JinjaEncoder(EncodeConfig config, std::shared_ptr<const text::Tokenizer> tokenizer, text::ChatTemplate chat_template);
  std::vector<std::string> stop_words() const override;

 protected:
  Sample encode_untruncated(const Conversation& conversation) const override;
  std::vector<text::TokenId> encode_generation_prompt(const Conversation& conversation) const override;

 private:
  struct Span {
    size_t begin, end;
    size_t message;
  };
  using ContentRanges = std::map<size_t, std::pair<size_t, size_t>>;  // by message: where its content begins and ends
  struct Prepared {
    Json messages, tools, variables;
    std::vector<std::optional<bool>> loss;  // of each message
  };
  void choose_tool_form();
  Result<text::Rendered> render_probe(const Json& messages, const Json& tools) const;
  Prepared prepare(const Conversation& conversation) const;
  text::Rendered render(const Prepared& prepared, const Json& messages, bool open) const;
  std::vector<Span> response_spans(const Prepared& prepared, const text::Rendered& whole) const;
  ContentRanges content_ranges(const Prepared& prepared, const std::string& whole) const;
  void append_alike(const std::vector<size_t>& assistants, const ContentRanges& contents, const std::string& whole,
                    const std::function<Span(size_t message)>& exact, std::vector<Span>& spans) const;
  std::vector<Span> spans_of(const Prepared& prepared, const std::string& whole, const std::vector<size_t>& assistants,
                             const std::function<Span(size_t message)>& exact) const;
  std::optional<Sample> clearly_too_long(const Prepared& prepared, const std::string& whole) const;
  std::optional<Span> span_by_prefix(const Prepared& prepared, const std::string& whole, size_t message) const;
  std::optional<Span> span_by_difference(const Prepared& prepared, const std::string& whole, size_t message,
                                         const std::string& ending) const;
  // Marks text that spells a special token and must stay text; guarded_tokens reads the markers.
  void guard(Prepared& prepared) const;
  static void take_out_marks(Json& value);
  void guard_strings(Json& value, bool whole) const;  // whole: one pair of markers around a text, else one around each token
  std::string with_marked_tokens(const std::string& text) const;
  std::vector<text::TokenId> guarded_tokens(const std::string& rendered) const;
  Sample tokenize(const std::string& text, const std::vector<Span>& spans, const Prepared& prepared) const;

  static constexpr size_t kManyAssistants = 8;  // from this number on, quadratic work is avoided
  text::ChatTemplate template_;
  std::vector<std::string> special_texts_;    // what guarded text must not become
  const text::AgentFormat* agent_ = nullptr;  // writes tools, calls and results; null: the template does
  bool takes_system_ = true;
};

// The variables that transformers passes to a chat template; `tools` may be null.
Json template_variables(const text::Tokenizer& tokenizer, Json messages, Json tools, bool add_generation_prompt);

}  // namespace hone::data
