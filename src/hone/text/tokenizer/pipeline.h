// The tokenizer as a pipeline: added tokens, normalizer, pre-tokenizer, model, post-processor; and the decoder.
#pragma once
#include <memory>

#include "hone/text/tokenizer.h"
#include "hone/text/tokenizer/added_tokens.h"
#include "hone/text/tokenizer/decoder.h"
#include "hone/text/tokenizer/models/bpe.h"
#include "hone/text/tokenizer/models/model.h"
#include "hone/text/tokenizer/normalizer.h"
#include "hone/text/tokenizer/post_processor.h"
#include "hone/text/tokenizer/pre_tokenizers/pre_tokenizer.h"

namespace hone::text::tokenizer {

struct PipelineStages {
  std::unique_ptr<Model> model;
  std::unique_ptr<Normalizer> normalizer;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  Splitter byte_level_splitter = nullptr;  // if set, replaces pre_tokenizer and byte-level spelling
  PostProcessor post_processor;
  std::unique_ptr<Decoder> decoder;
  std::vector<AddedToken> added_tokens;
};

class Pipeline : public Tokenizer {
 public:
  explicit Pipeline(PipelineStages parts);

  void encode_to(std::string_view text, const EncodeOptions& options, std::vector<TokenId>& out) const override;
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const override;
  std::optional<TokenId> id_of(std::string_view token) const override;
  std::string token_of(TokenId id) const override;
  bool is_special(TokenId id) const override;
  size_t size() const override;

  // For the folder loader, before the tokenizer is shared.
  void add_token(AddedToken token) { added_.add(std::move(token), parts_.model->vocabulary()); }
  bool has_added_token(std::string_view content) const { return added_.find_id(content).has_value(); }
  void set_post_processor(PostProcessor processor) { parts_.post_processor = std::move(processor); }
  void finish();
  SpecialTokens& mutable_special() { return special_; }
  void set_chat_template(std::string source) { chat_template_ = std::move(source); }
  void set_model_max_length(int64_t length) { model_max_length_ = length; }

 private:
  void encode_raw_segment(std::string_view text, bool first, bool guard, std::vector<TokenId>& out) const;
  void encode_plain(std::string_view text, bool first, std::vector<TokenId>& out) const;
  void encode_bytes(std::string_view text, std::vector<TokenId>& out) const;

  PipelineStages parts_;
  AddedTokens added_;
  Bpe* byte_model_ = nullptr;  // set when text goes through byte_level_splitter straight into the model
  uint64_t number_;            // names this tokenizer in the per-thread caches
};

}  // namespace hone::text::tokenizer
