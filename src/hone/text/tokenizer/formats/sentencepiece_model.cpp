#include "hone/text/tokenizer/formats/sentencepiece_model.h"

#include "hone/base/protobuf.h"
#include "hone/text/tokenizer/models/vocabulary_merges.h"
#include "hone/text/tokenizer/unicode/utf8.h"

namespace hone::text::tokenizer {
namespace {

enum class PieceKind { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

struct SentencePiece {
  std::string_view text;
  float score = 0;
  PieceKind kind = PieceKind::normal;
};

struct Proto {
  std::vector<SentencePiece> pieces;
  uint64_t model_type = 1;  // 1 Unigram, 2 BPE
  uint64_t unk_id = 0;
  bool byte_fallback = false, add_dummy_prefix = true, remove_extra_whitespaces = true;
  std::string_view charsmap;
};

bool read_piece(std::string_view bytes, SentencePiece& piece) {
  ProtobufReader message(bytes);
  while (auto field = message.next()) {
    if (field->number == 1) piece.text = field->bytes;
    if (field->number == 2) piece.score = field->as_float();
    if (field->number == 3) piece.kind = static_cast<PieceKind>(field->value);
  }
  return message.ok() && is_valid_utf8(piece.text);
}

bool read_trainer(std::string_view bytes, Proto& proto) {
  ProtobufReader message(bytes);
  while (auto field = message.next()) {
    if (field->number == 3) proto.model_type = field->value;
    if (field->number == 35) proto.byte_fallback = field->value != 0;
    if (field->number == 40) proto.unk_id = field->value;
  }
  return message.ok();
}

bool read_normalizer(std::string_view bytes, Proto& proto) {
  ProtobufReader message(bytes);
  while (auto field = message.next()) {
    if (field->number == 2) proto.charsmap = field->bytes;
    if (field->number == 3) proto.add_dummy_prefix = field->value != 0;
    if (field->number == 4) proto.remove_extra_whitespaces = field->value != 0;
  }
  return message.ok();
}

Result<Proto> read_proto(std::string_view bytes) {
  Proto proto;
  ProtobufReader message(bytes);
  while (auto field = message.next()) {
    bool good = true;
    if (field->number == 1) good = read_piece(field->bytes, proto.pieces.emplace_back());
    if (field->number == 2) good = read_trainer(field->bytes, proto);
    if (field->number == 3) good = read_normalizer(field->bytes, proto);
    if (!good) return error("damaged SentencePiece model: piece {} or its settings cannot be read", proto.pieces.size());
  }
  if (!message.ok() || proto.pieces.empty()) return error("not a SentencePiece model (a protobuf of pieces was expected)");
  if (proto.model_type != 1 && proto.model_type != 2)
    return error("SentencePiece model type {}; known are Unigram (1) and BPE (2)", proto.model_type);
  if (proto.unk_id >= proto.pieces.size()) return error("unk_id {} is not one of {} pieces", proto.unk_id, proto.pieces.size());
  return proto;
}

Json metaspace(const char* scheme, bool split) {
  return {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", split}};
}

Json spaces_decoder(bool strip_first) {
  Json parts = Json::array(
      {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}}, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  if (strip_first) parts.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", parts}};
}

// SentencePiece's own normalization: the compiled map, then single spaces inside and none around.
Result<std::unique_ptr<Normalizer>> unigram_normalizer(const Proto& proto) {
  struct Both : Normalizer {
    std::unique_ptr<Normalizer> first, second;
    void apply(std::string& text) const override {
      if (first) first->apply(text);
      if (second) second->apply(text);
    }
  };
  auto both = std::make_unique<Both>();
  if (!proto.charsmap.empty()) {
    auto mapped = make_precompiled(proto.charsmap, CharsmapMatching::longest);
    if (!mapped) return mapped;
    both->first = std::move(*mapped);
  }
  if (proto.remove_extra_whitespaces) {
    Json tidy = {{"type", "Sequence"},
                 {"normalizers", Json::array({{{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}},
                                              {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}}})}};
    auto made = make_normalizer(tidy);
    if (!made) return made;
    both->second = std::move(*made);
  }
  return std::unique_ptr<Normalizer>(std::move(both));
}

Result<PipelineStages> bpe_parts(const Proto& proto, Vocabulary vocabulary, bool legacy) {
  PipelineStages parts;
  auto merges = merges_by_splits(vocabulary, 0, MergeRank::per_split);
  parts.model =
      std::make_unique<Bpe>(std::move(vocabulary), std::move(merges), BpeOptions{.fuse_unk = true, .byte_fallback = true});
  const char* scheme = !proto.add_dummy_prefix ? "never" : legacy ? "always" : "first";
  auto pre_tokenizer = make_pre_tokenizer(metaspace(scheme, false));
  if (!pre_tokenizer) return Error{pre_tokenizer.error()};
  parts.pre_tokenizer = std::move(*pre_tokenizer);
  return parts;
}

Result<PipelineStages> unigram_parts(const Proto& proto, Vocabulary vocabulary) {
  PipelineStages parts;
  std::vector<double> scores;
  for (auto& piece : proto.pieces) scores.push_back(piece.score);
  parts.model = make_unigram(std::move(vocabulary), std::move(scores),
                             {.unk_id = static_cast<TokenId>(proto.unk_id), .byte_fallback = proto.byte_fallback});
  auto normalizer = unigram_normalizer(proto);
  if (!normalizer) return Error{normalizer.error()};
  parts.normalizer = std::move(*normalizer);
  auto pre_tokenizer = make_pre_tokenizer(metaspace(proto.add_dummy_prefix ? "always" : "never", true));
  if (!pre_tokenizer) return Error{pre_tokenizer.error()};
  parts.pre_tokenizer = std::move(*pre_tokenizer);
  return parts;
}

}  // namespace

Result<std::unique_ptr<Pipeline>> read_sentencepiece(std::string_view bytes, bool legacy) {
  auto proto = read_proto(bytes);
  if (!proto) return Error{proto.error()};
  Vocabulary vocabulary;
  for (size_t id = 0; id < proto->pieces.size(); ++id) {
    auto added = vocabulary.add(proto->pieces[id].text, static_cast<int64_t>(id));
    if (!added) return Error{added.error()};
  }
  auto parts =
      proto->model_type == 2 ? bpe_parts(*proto, std::move(vocabulary), legacy) : unigram_parts(*proto, std::move(vocabulary));
  if (!parts) return Error{parts.error()};
  for (auto& piece : proto->pieces) {
    bool special = piece.kind == PieceKind::control || piece.kind == PieceKind::unknown;
    if (special || piece.kind == PieceKind::user_defined)
      parts->added_tokens.push_back({.content = std::string(piece.text), .normalized = false, .special = special});
  }
  auto decoder = make_decoder(spaces_decoder(proto->add_dummy_prefix));
  if (!decoder) return Error{decoder.error()};
  parts->decoder = std::move(*decoder);
  auto pipeline = std::make_unique<Pipeline>(std::move(*parts));
  auto& names = pipeline->mutable_special();
  names.bos = pipeline->id_of("<s>");
  names.eos = pipeline->id_of("</s>");
  names.unk = static_cast<TokenId>(proto->unk_id);
  return pipeline;
}

}  // namespace hone::text::tokenizer
