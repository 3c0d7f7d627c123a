// Any bytes as a JSON schema and as a regular expression, followed for some tokens: refused, or a shape whose texts can be
// written to their end.
#include <cstdint>
#include <string_view>

#include "hone/base/rng.h"
#include "hone/engine/constraints/compiler.h"

namespace {

using namespace hone;
using engine::Constraint, engine::ConstraintCompiler;

constexpr text::TokenId kEnd = 259;
constexpr int kTokens = 64;

// Ids 0 to 255 are the bytes.
std::shared_ptr<const text::Tokenizer> bytes_as_tokens() {
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocabulary[fmt::format("<0x{:02X}>", byte)] = byte;
  vocabulary["ab"] = 256, vocabulary["\":"] = 257, vocabulary["10"] = 258;
  Json json{{"added_tokens", {{{"id", kEnd}, {"content", "<end>"}, {"special", true}}}},
            {"model", {{"type", "BPE"}, {"byte_fallback", true}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
  return text::tokenizer_from_json(json.dump()).or_throw(ExitCode::failure, "tokenizer");
}

const ConstraintCompiler& compiler() {
  static const auto tokenizer = bytes_as_tokens();
  static const ConstraintCompiler made(*tokenizer, {kEnd},
                                       {.following = {.places = 2000, .work = 200'000}, .state_bytes = 4 << 20});
  return made;
}

// Whatever is chosen of what is allowed, something may follow it.
void follow(const Constraint& constraint, uint64_t seed) try {
  Rng rng(seed);
  auto state = Constraint::kStart;
  for (int i = 0; i < kTokens; ++i) {
    auto mask = constraint.mask(state);
    std::vector<text::TokenId> allowed;
    for (text::TokenId token = 0; token <= kEnd; ++token)
      if (mask->allows(token)) allowed.push_back(token);
    HONE_CHECK(!allowed.empty(), "a text that leads nowhere");
    auto token = allowed[rng.below(allowed.size())];
    if (token == kEnd) return;
    state = constraint.next(state, token);
  }
} catch (const engine::ConstraintError&) {
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  if (auto constraint = compiler().regex(text)) follow(**constraint, size);
  if (auto schema = parse_json(text))
    if (auto constraint = compiler().json_schema(*schema)) follow(**constraint, size);
  return 0;
}
