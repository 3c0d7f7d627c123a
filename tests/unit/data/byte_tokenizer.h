// A tokenizer one can predict: a byte is its own id, listed special tokens come after. For tests only.
#pragma once
#include "hone/text/tokenizer.h"

namespace hone::data {

class ByteTokenizer : public text::Tokenizer {
 public:
  explicit ByteTokenizer(std::vector<std::string> special, const std::string& eos = "", const std::string& bos = "",
                         std::string chat_template = "")
      : names_(std::move(special)) {
    special_.eos = eos.empty() ? std::nullopt : id_of(eos);
    special_.bos = bos.empty() ? std::nullopt : id_of(bos);
    special_.add_bos = special_.bos.has_value();
    chat_template_ = std::move(chat_template);
  }

  void encode_to(std::string_view text, const text::EncodeOptions& options, std::vector<text::TokenId>& out) const override {
    if (options.add_special_tokens && special_.add_bos) out.push_back(*special_.bos);
    while (!text.empty()) {
      size_t taken = 0;
      for (size_t i = 0; i < names_.size() && !taken && !options.guard_special_tokens; ++i)
        if (text.starts_with(names_[i])) out.push_back(static_cast<text::TokenId>(256 + i)), taken = names_[i].size();
      if (!taken) out.push_back(static_cast<unsigned char>(text[0])), taken = 1;
      text.remove_prefix(taken);
    }
  }
  std::string decode(std::span<const text::TokenId> ids, bool skip_special_tokens) const override {
    std::string text;
    for (auto id : ids)
      if (!is_special(id) || !skip_special_tokens) text += token_of(id);
    return text;
  }
  std::optional<text::TokenId> id_of(std::string_view token) const override {
    for (size_t i = 0; i < names_.size(); ++i)
      if (names_[i] == token) return static_cast<text::TokenId>(256 + i);
    return token.size() == 1 ? std::optional<text::TokenId>(static_cast<unsigned char>(token[0])) : std::nullopt;
  }
  std::string token_of(text::TokenId id) const override {
    return id >= 256 ? names_[static_cast<size_t>(id - 256)] : std::string(1, static_cast<char>(id));
  }
  bool is_special(text::TokenId id) const override { return id >= 256; }
  size_t size() const override { return 256 + names_.size(); }

 private:
  std::vector<std::string> names_;
};

inline std::shared_ptr<const text::Tokenizer> chatml_tokenizer(std::string chat_template = "") {
  return std::make_shared<ByteTokenizer>(std::vector<std::string>{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}, "<|im_end|>",
                                         "", std::move(chat_template));
}

// Learned tokens as text, masked runs as "[n]".
inline std::string learned(const text::Tokenizer& tokenizer, const std::vector<text::TokenId>& labels) {
  std::string out;
  for (size_t i = 0; i < labels.size();) {
    size_t masked = 0;
    for (; i < labels.size() && labels[i] == -100; ++i) ++masked;
    if (masked) out += "[" + std::to_string(masked) + "]";
    if (i < labels.size()) out += tokenizer.token_of(labels[i++]);
  }
  return out;
}

}  // namespace hone::data
