// Every token of a vocabulary by its bytes, so that tokens with a common prefix are checked once.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hone/text/tokenizer.h"

namespace hone::engine {

class TokenTrie {
 public:
  TokenTrie(const text::Tokenizer& tokenizer, std::vector<text::TokenId> end_tokens);

  // Nodes in depth-first order; the subtree of a node ends where `after` says. Tokens of a node: [first_token, last_token) of
  // tokens().
  struct Node {
    uint8_t byte;
    int32_t after, first_token, last_token;
  };
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<text::TokenId>& tokens() const { return tokens_; }
  const std::string& bytes_of(text::TokenId token) const { return bytes_[static_cast<size_t>(token)]; }  // "" for special tokens
  const std::vector<text::TokenId>& end_tokens() const { return end_tokens_; }
  size_t vocabulary() const { return bytes_.size(); }

 private:
  void build(size_t first, size_t last, size_t depth);

  std::vector<std::string> bytes_;
  std::vector<text::TokenId> tokens_;  // sorted by bytes
  std::vector<Node> nodes_;
  std::vector<text::TokenId> end_tokens_;
};

}  // namespace hone::engine
