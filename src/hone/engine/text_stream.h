// Incremental detokenization: complete characters only, and no text that may still become a stop string.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "hone/text/tokenizer.h"

namespace hone::engine {

class TextStream {
 public:
  // `tokenizer` must outlive the stream. With `include_stop` the text ends after the stop string, otherwise before it.
  TextStream(const text::Tokenizer& tokenizer, std::vector<std::string> stop, bool include_stop = false,
             bool skip_special_tokens = true);

  std::string push(text::TokenId token, bool may_stop = true);  // text that has become final
  std::string finish();                                         // text that was held back; nothing after a stop string
  bool stopped() const { return !stop_string_.empty(); }
  const std::string& stop_string() const { return stop_string_; }

 private:
  std::string release(bool may_stop);
  text::StreamDecoder decoder_;
  std::vector<std::string> stop_;
  bool include_stop_;
  size_t longest_stop_ = 0;
  std::string held_, stop_string_;
};

}  // namespace hone::engine
