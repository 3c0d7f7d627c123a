#include "hone/text/tokenizer.h"

namespace hone::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
// No tokenizer splits one character over more tokens; after more, the bytes are not valid text.
constexpr size_t kMaxHeld = 64;

}  // namespace

// Text is final once it does not end in U+FFFD, the decoding of incomplete bytes. Decoding from the last complete part on (and
// not from the new token alone) keeps the space that some decoders strip from the first token.
std::string StreamDecoder::push(TokenId id) {
  ids_.push_back(id);
  std::span<const TokenId> ids(ids_);
  auto known = tokenizer_.decode(ids.subspan(prefix_, read_ - prefix_), skip_special_);
  auto text = tokenizer_.decode(ids.subspan(prefix_), skip_special_);
  bool unfinished = text.ends_with(kReplacement) && ids_.size() - read_ < kMaxHeld;
  if (unfinished || text.size() <= known.size() || !text.starts_with(known)) return {};
  text.erase(0, known.size());
  prefix_ = read_;
  read_ = ids_.size();
  if (prefix_ > 4096) {  // old ids are not needed again
    ids_.erase(ids_.begin(), ids_.begin() + static_cast<ptrdiff_t>(prefix_));
    read_ -= prefix_;
    prefix_ = 0;
  }
  return text;
}

std::string StreamDecoder::finish() {
  std::span<const TokenId> ids(ids_);
  auto known = tokenizer_.decode(ids.subspan(prefix_, read_ - prefix_), skip_special_);
  auto text = tokenizer_.decode(ids.subspan(prefix_), skip_special_);
  bool continues = text.starts_with(known);
  text = continues ? text.substr(known.size()) : tokenizer_.decode(ids.subspan(read_), skip_special_);
  ids_.clear();
  prefix_ = read_ = 0;
  return text;
}

}  // namespace hone::text
