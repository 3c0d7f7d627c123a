#include "hone/cli/commands/inspect/render_built_in.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include "hone/data/encode/encoder.h"
#include "hone/data/formats/format.h"
#include "hone/text/templates/template_tables.h"
#include "hone/text/tokenizer.h"

namespace hone::cli {
namespace {

using text::TokenId;

// Substitute for a missing vocabulary: each byte is a token, and special tokens keep their names.
class ByteTokenizer : public text::Tokenizer {
 public:
  ByteTokenizer() {
    special_.bos = named("<bos>");
    special_.eos = named("<eos>");
  }

  void encode_to(std::string_view text, const text::EncodeOptions&, std::vector<TokenId>& out) const override {
    for (char c : text) out.push_back(static_cast<unsigned char>(c));
  }
  std::string decode(std::span<const TokenId> ids, bool) const override {
    std::string text;
    for (auto id : ids) text += token_of(id);
    return text;
  }
  std::optional<TokenId> id_of(std::string_view token) const override { return named(std::string(token)); }
  std::string token_of(TokenId id) const override {
    if (id < kBytes) return std::string(1, static_cast<char>(id));
    auto place = static_cast<size_t>(id - kBytes);
    return place < names_.size() ? names_[place] : fmt::format("<token {}>", id);
  }
  bool is_special(TokenId id) const override { return id >= kBytes; }
  size_t size() const override { return kBytes + names_.size(); }

 private:
  static constexpr TokenId kBytes = 256;
  TokenId named(std::string name) const {
    auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end()) found = names_.insert(names_.end(), std::move(name));
    return kBytes + static_cast<TokenId>(found - names_.begin());
  }
  mutable std::vector<std::string> names_;  // a template may request any token: its text is returned
};

// Errors of the conversation already contain the position.
template <class T>
T or_refuse(Result<T> result) {
  if (!result) throw UserError(ExitCode::bad_data, result.error());
  return std::move(*result);
}

data::Conversation read_conversation(const Json& conversation, const std::string& origin) {
  data::Row row{conversation.is_array() ? Json{{"messages", conversation}} : conversation, {origin, 1, ""}};
  std::vector<std::string> columns;
  for (const auto& [name, value] : row.fields.items()) columns.push_back(name);
  data::SwiftFormatOptions options;
  options.demands.prompts_only = true;
  return or_refuse(data::swift_format(options, columns)->convert(std::move(row)));
}

}  // namespace

bool names_built_in_template(const std::string& name) {
  return !std::filesystem::exists(name) && (text::find_swift_template(name) || text::find_factory_template(name));
}

std::string render_built_in(const Json& conversation, const std::string& origin, const BuiltInRender& request) {
  auto tokenizer = request.model.empty() ? std::make_shared<const ByteTokenizer>() : text::Tokenizer::load(request.model);
  bool factory =
      request.factory ? text::find_factory_template(request.name) != nullptr : text::find_swift_template(request.name) == nullptr;
  auto config = data::dialect_defaults(factory ? data::Dialect::factory : data::Dialect::swift);
  config.template_name = request.name;
  config.max_length = 0;
  if (request.enable_thinking) config.enable_thinking = request.enable_thinking;
  auto encoder = data::Encoder::make(config, tokenizer, {});
  auto read = read_conversation(conversation, origin);
  bool answered =
      !read.messages.empty() && (read.messages.back().role == "assistant" || read.messages.back().role == "tool_call");
  if (answered && request.add_generation_prompt)
    throw UserError(ExitCode::usage, origin + ": the conversation ends with an assistant message; there is nothing to generate",
                    "leave --add_generation_prompt out, or the last message");
  return tokenizer->decode(answered ? or_refuse(encoder->encode(read)).ids : or_refuse(encoder->encode_prompt(read)));
}

}  // namespace hone::cli
