// Text to token ids and back, as a Hugging Face model folder defines it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hone/base/error.h"

namespace hone::text {

using TokenId = int32_t;

struct EncodeOptions {
  bool add_special_tokens = false;    // run the post-processor's template (BOS, EOS …)
  bool guard_special_tokens = false;  // text that spells a special token stays text
};

// The named special tokens of tokenizer_config.json / special_tokens_map.json; ids are absent when the token is not set.
struct SpecialTokens {
  std::optional<TokenId> bos, eos, pad, unk;
  bool add_bos = false, add_eos = false;
};

class Tokenizer {
 public:
  // Reads tokenizer.json (or tokenizer.model), tokenizer_config.json, added_tokens.json as present. Throws UserError(bad_data)
  // naming the file.
  static std::shared_ptr<const Tokenizer> load(const std::filesystem::path& folder);
  virtual ~Tokenizer() = default;

  // Thread-safe. Invalid UTF-8 is replaced by U+FFFD, one per maximal invalid part.
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;
  virtual void encode_to(std::string_view text, const EncodeOptions& options, std::vector<TokenId>& out) const = 0;
  virtual std::string decode(std::span<const TokenId> ids, bool skip_special_tokens = false) const = 0;

  virtual std::optional<TokenId> id_of(std::string_view token) const = 0;
  virtual std::string token_of(TokenId id) const = 0;  // as written in the vocabulary; "" for an unknown id
  virtual bool is_special(TokenId id) const = 0;
  virtual size_t size() const = 0;  // one more than the highest id

  const SpecialTokens& special() const { return special_; }
  const std::string& chat_template() const { return chat_template_; }  // Jinja source, empty when the folder has none
  int64_t model_max_length() const { return model_max_length_; }       // 0 when unset

 protected:
  SpecialTokens special_;
  std::string chat_template_;
  int64_t model_max_length_ = 0;
};

// A tokenizer from the text of a tokenizer.json alone: no folder, no configuration.
Result<std::shared_ptr<const Tokenizer>> tokenizer_from_json(std::string_view json);

// Decodes one token at a time and never emits partial characters: incomplete bytes are held back.
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens)
      : tokenizer_(tokenizer), skip_special_(skip_special_tokens) {}
  std::string push(TokenId id);  // text that has become final
  std::string finish();          // text that was held back

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::vector<TokenId> ids_;
  size_t prefix_ = 0, read_ = 0;
};

}  // namespace hone::text
