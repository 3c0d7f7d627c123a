// ms-swift's encoding: text segments with a loss weight; adjacent segments of equal weight are joined, and each string is
// tokenized separately.
#pragma once
#include "hone/data/encode/encoder.h"
#include "hone/data/encode/loss_scale.h"
#include "hone/data/encode/swift_turns.h"
#include "hone/text/templates/template_tables.h"

namespace hone::data {

class SwiftEncoder : public Encoder {
 public:
  SwiftEncoder(EncodeConfig config, std::shared_ptr<const text::Tokenizer> tokenizer, const text::SwiftTemplate& chat_template);
  std::vector<std::string> stop_words() const override { return stop_words_; }

 protected:
  Sample encode_untruncated(const Conversation& conversation) const override;
  std::vector<text::TokenId> encode_generation_prompt(const Conversation& conversation) const override;

 private:
  enum class SegmentKind { other, response, suffix };
  struct Segment {
    SegmentKind part = SegmentKind::other;
    bool is_text = true, guarded = false;
    std::string text;
    std::vector<text::TokenId> ids;
    std::vector<ResponsePart> response;  // of a response
    double weight = 0;
  };
  using Segments = std::vector<Segment>;
  struct Values {
    const std::string* system = nullptr;
    const std::string* query = nullptr;
    std::string round0, round1;
  };

  void rearrange(Turns& turns) const;
  void write_seed_reasoning(Turns& turns) const;
  int64_t thinking_budget(const Turns& turns) const;
  Segments lay_out(Turns turns, bool training) const;
  void append_rounds(const Turns& turns, bool training, Segments& segments) const;
  void append(const text::TemplateSlots& pieces, const Values& values, SegmentKind part, Segments& segments) const;
  void append_guarded(const std::string& text, const Values& values, SegmentKind part, Segments& segments) const;
  void finish_round(const Turn& reply, bool training, Segments& segments) const;
  Segments weigh(const Segments& segments, const Turns& turns) const;
  std::vector<Segment> weigh_one(const Segment& segment, const ResponsePart* part, const std::string& query,
                                 bool last_round) const;
  Sample tokenize(const Segments& segments) const;
  void learn_middle_suffixes(Sample& sample) const;

  void add_non_thinking_prefix(Turns& turns, bool training) const;
  void drop_history_thinking(Turns& turns) const;
  void strip_glm_newlines(Segments& segments) const;
  bool preserves_thinking(const Turns& turns, bool training) const;
  bool thinks(const Turns& turns) const;
  std::string response_prefix(const Turns& turns) const;
  std::optional<std::string> system_text(Turns& turns) const;

  text::SwiftTemplate template_;
  LossScale loss_scale_;
  bool binary_weights_;
  const text::AgentFormat* agent_;
  std::vector<text::TokenId> opening_ids_, closing_ids_;  // special tokens that the tokenizer itself adds
  std::vector<text::TokenId> suffix_ids_;
  std::vector<std::string> stop_words_;
};

}  // namespace hone::data
