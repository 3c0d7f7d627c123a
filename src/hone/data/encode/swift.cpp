#include "hone/data/encode/swift.h"

#include <algorithm>

#include "hone/base/strings/replace_all.h"
#include "hone/base/strings/trimmed.h"
#include "hone/data/encode/render_tools.h"

namespace hone::data {
namespace {

using text::FormatError;
using text::SwiftTemplate;
using text::TemplateSlot;
using text::TokenId;
using Role = Turn::Role;

// Without a chat template the text is only surrounded by the tokenizer's special tokens and EOS.
SwiftTemplate bare_template(const SwiftTemplate& chat_template) {
  return {.name = chat_template.name,
          .prompt = {"{{QUERY}}"},
          .chat_sep = std::nullopt,
          .auto_add_bos = true,
          .stop_words = chat_template.stop_words};
}

std::string loss_words(const EncodeConfig& config, const SwiftTemplate& chat_template) {
  bool hybrid = chat_template.thinking && !chat_template.non_thinking_prefix.empty();
  bool add = config.ignore_empty_think && hybrid && config.loss_scale.find("ignore_empty_think") == std::string::npos;
  return config.loss_scale + (add ? "+ignore_empty_think" : "");
}

}  // namespace

SwiftEncoder::SwiftEncoder(EncodeConfig config, std::shared_ptr<const text::Tokenizer> tokenizer,
                           const SwiftTemplate& chat_template)
    : Encoder(std::move(config), std::move(tokenizer), chat_template.name),
      template_(config_.use_chat_template ? chat_template : bare_template(chat_template)),
      loss_scale_(loss_words(config_, chat_template)),
      binary_weights_(config_.binary_loss_scale.value_or(loss_scale_.binary())),
      agent_(agent_format_of(config_, chat_template.agent)) {
  if (agent_ && config_.tool_format.empty()) config_.tool_format = chat_template.agent;
  if (config_.system) {
    bool knows_system =
        template_.system_prefix || template_.system_in_prompt || template_.quirk == SwiftTemplate::Quirk::gemma_system;
    if (config_.use_chat_template && !knows_system)
      throw UserError(ExitCode::usage, "template \"" + chat_template.name + "\" has no slot for a system text",
                      "leave `system` out, or choose another `template`");
    template_.default_system = config_.system;
  }
  if (template_.auto_add_bos) {
    auto all = tokenizer_->encode("a", {.add_special_tokens = true}), bare = tokenizer_->encode("a");
    auto at = std::search(all.begin(), all.end(), bare.begin(), bare.end());
    opening_ids_.assign(all.begin(), at);
    if (at != all.end()) closing_ids_.assign(at + static_cast<ptrdiff_t>(bare.size()), all.end());
  }
  Segments suffix;
  append(template_.suffix, {}, SegmentKind::suffix, suffix);
  for (const auto& segment : suffix) {
    auto ids = segment.is_text ? tokens(segment.text) : segment.ids;
    suffix_ids_.insert(suffix_ids_.end(), ids.begin(), ids.end());
  }
  stop_words_ = template_.stop_words;
  auto add_stop = [&](const std::string& word) {
    if (!word.empty() && std::find(stop_words_.begin(), stop_words_.end(), word) == stop_words_.end())
      stop_words_.push_back(word);
  };
  if (!template_.suffix.empty() && template_.suffix.back().kind == TemplateSlot::Kind::text)
    add_stop(trimmed(template_.suffix.back().text));
  if (tokenizer_->special().eos) add_stop(tokenizer_->token_of(*tokenizer_->special().eos));
  turn_tokens_ = stop_words_;
}

Sample SwiftEncoder::encode_untruncated(const Conversation& conversation) const {
  auto turns = make_turns(conversation, template_, agent_);
  return tokenize(lay_out(std::move(turns), true));
}

std::vector<TokenId> SwiftEncoder::encode_generation_prompt(const Conversation& conversation) const {
  auto turns = make_turns(conversation, template_, agent_);
  return tokenize(lay_out(std::move(turns), false)).ids;
}

SwiftEncoder::Segments SwiftEncoder::lay_out(Turns turns, bool training) const {
  rearrange(turns);
  std::optional<std::string> system;
  if (config_.use_chat_template) {
    if (config_.add_non_thinking_prefix) add_non_thinking_prefix(turns, training);
    if (!preserves_thinking(turns, training)) drop_history_thinking(turns);
    system = system_text(turns);
  }
  turns.system = system;
  if (turns.turns[0].role == Role::assistant) turns.turns.insert(turns.turns.begin(), Turn{.role = Role::user});
  if (turns.turns.size() % 2 == 1) turns.turns.push_back({.role = Role::assistant});
  if (turns.turns.size() > 2 && !template_.chat_sep) turns.turns.erase(turns.turns.begin(), turns.turns.end() - 2);

  Segments segments;
  if (!opening_ids_.empty()) segments.push_back({.is_text = false, .ids = opening_ids_});
  bool with_system = system && !system->empty() && !template_.system_in_prompt && template_.system_prefix;
  append(with_system ? *template_.system_prefix : template_.prefix, {.system = system ? &*system : nullptr}, SegmentKind::other,
         segments);
  append_rounds(turns, training, segments);
  if (!closing_ids_.empty()) segments.push_back({.part = SegmentKind::suffix, .is_text = false, .ids = closing_ids_});
  auto weighted = weigh(segments, turns);
  if (template_.quirk == SwiftTemplate::Quirk::glm_newline) strip_glm_newlines(weighted);
  return weighted;
}

void SwiftEncoder::append_rounds(const Turns& turns, bool training, Segments& segments) const {
  size_t rounds = turns.turns.size() / 2;
  for (size_t i = 0; i < rounds; ++i) {
    const Turn &query = turns.turns[2 * i], &reply = turns.turns[2 * i + 1];
    if (query.role == Role::assistant || reply.role != Role::assistant)
      throw FormatError("user and assistant messages do not alternate");
    static const std::string none;
    Values values{
        .query = query.role == Role::tool ? &none : &query.text, .round0 = std::to_string(i), .round1 = std::to_string(i + 1)};
    bool last = i + 1 == rounds;
    if (query.role == Role::tool) {
      append(query.results, values, SegmentKind::other, segments);
    } else if (template_.system_in_prompt) {
      bool show_system = last && turns.system && !turns.system->empty();
      if (show_system) values.system = &*turns.system;
      text::TemplateSlots prompt;
      for (const auto& piece : template_.prompt)
        if (show_system || piece.text.find("{{SYSTEM}}") == std::string::npos) prompt.push_back(piece);
      append(prompt, values, SegmentKind::other, segments);
    } else {
      append(template_.prompt, values, SegmentKind::other, segments);
    }
    if (reply.response.empty()) {
      if (auto prefix = response_prefix(turns); !prefix.empty()) segments.push_back({.text = prefix});
      continue;
    }
    segments.push_back({.part = SegmentKind::response, .response = reply.response});
    if (last)
      finish_round(reply, training, segments);
    else if (turns.turns[2 * i + 2].role != Role::tool)
      append(*template_.chat_sep, {}, SegmentKind::other, segments);
  }
}

void SwiftEncoder::finish_round(const Turn& reply, bool training, Segments& segments) const {
  const auto& text = reply.response.back().text;
  bool stopped =
      std::any_of(stop_words_.begin(), stop_words_.end(), [&](const std::string& word) { return text.ends_with(word); });
  const bool closes = training || template_.quirk == SwiftTemplate::Quirk::embedded_text;
  if (closes && closing_ids_.empty() && !stopped) append(template_.suffix, {}, SegmentKind::suffix, segments);
}

void SwiftEncoder::append(const text::TemplateSlots& pieces, const Values& values, SegmentKind part, Segments& segments) const {
  for (const auto& piece : pieces) {
    std::optional<TokenId> id;
    switch (piece.kind) {
      case TemplateSlot::Kind::text: {
        if (config_.guard_special_tokens && (values.system || values.query)) {
          append_guarded(piece.text, values, part, segments);
          continue;
        }
        auto text = piece.text;
        if (values.system) text = replace_all(std::move(text), "{{SYSTEM}}", *values.system);
        if (values.query) text = replace_all(std::move(text), "{{QUERY}}", *values.query);
        if (!values.round0.empty())
          text = replace_all(replace_all(std::move(text), "{{ROUND0}}", values.round0), "{{ROUND1}}", values.round1);
        if (!values.system) text = replace_all(std::move(text), "{{SYSTEM}}", "");
        if (!text.empty()) segments.push_back({.part = part, .text = std::move(text)});
        continue;
      }
      case TemplateSlot::Kind::bos:
        id = tokenizer_->special().bos;
        break;
      case TemplateSlot::Kind::eos:
        id = tokenizer_->special().eos;
        break;
      case TemplateSlot::Kind::token:
        id = tokenizer_->id_of(piece.text);
        break;
      case TemplateSlot::Kind::id:
        id = piece.id;
        break;
    }
    if (id) segments.push_back({.part = part, .is_text = false, .ids = {*id}});
  }
}

// Removes placeholders, so that a value that spells a special token can be tokenized as plain text.
void SwiftEncoder::append_guarded(const std::string& text, const Values& values, SegmentKind part, Segments& segments) const {
  for (size_t at = 0; at < text.size();) {
    auto open = std::min(text.find("{{", at), text.size());
    if (open > at) segments.push_back({.part = part, .text = text.substr(at, open - at)});
    if (open == text.size()) return;
    auto close = text.find("}}", open);
    auto name = text.substr(open + 2, close - open - 2);
    const std::string* value = name == "SYSTEM"   ? values.system
                               : name == "QUERY"  ? values.query
                               : name == "ROUND0" ? &values.round0
                                                  : &values.round1;
    if (value && !value->empty()) segments.push_back({.part = part, .guarded = spells_special_token(*value), .text = *value});
    at = close + 2;
  }
}

SwiftEncoder::Segments SwiftEncoder::weigh(const Segments& segments, const Turns& turns) const {
  Segments out;
  int64_t last_user = turns.last_user(), round = 0;
  for (const auto& segment : segments) {
    bool last_round = 2 * round >= last_user;
    if (segment.part == SegmentKind::response) {
      const auto& query = turns.turns[static_cast<size_t>(2 * round)].text;
      ++round;
      for (const auto& part : segment.response)
        for (auto& piece : weigh_one(segment, &part, query, last_round)) out.push_back(std::move(piece));
    } else {
      for (auto& piece : weigh_one(segment, nullptr, {}, last_round)) out.push_back(std::move(piece));
    }
  }
  return out;
}

std::vector<SwiftEncoder::Segment> SwiftEncoder::weigh_one(const Segment& segment, const ResponsePart* part,
                                                           const std::string& query, bool last_round) const {
  using Base = LossScale::Base;
  Segment whole{.part = segment.part,
                .is_text = segment.is_text,
                .guarded = segment.guarded,
                .text = part ? part->text : segment.text,
                .ids = segment.ids};
  if (part && config_.guard_special_tokens) whole.guarded = spells_special_token(whole.text);
  bool is_response = segment.part != SegmentKind::other;
  bool by_base = loss_scale_.base() == Base::all || (is_response && (loss_scale_.base() == Base::every_response || last_round));
  auto loss = part ? part->loss : std::nullopt;
  if (!loss.value_or(by_base)) return {whole};
  whole.weight = 1;
  if (part && part->loss_scale) {
    whole.weight = *part->loss_scale;
    return {whole};
  }
  if (!whole.is_text) return {whole};
  std::vector<Segment> pieces;
  for (auto& weighted : loss_scale_.weigh(whole.text, query)) {
    auto piece = whole;
    piece.text = std::move(weighted.text);
    piece.weight = weighted.weight;
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

Sample SwiftEncoder::tokenize(const Segments& segments) const {
  Sample sample;
  auto add = [&](const std::vector<TokenId>& ids, double weight) {
    sample.ids.insert(sample.ids.end(), ids.begin(), ids.end());
    if (weight > 0)
      sample.labels.insert(sample.labels.end(), ids.begin(), ids.end());
    else
      sample.labels.insert(sample.labels.end(), ids.size(), kIgnore);
    if (!binary_weights_) sample.loss_scale.insert(sample.loss_scale.end(), ids.size(), static_cast<float>(weight));
  };
  for (size_t i = 0; i < segments.size();) {
    const auto& first = segments[i];
    if (!first.is_text || first.guarded) {
      add(first.is_text ? tokens(first.text, true) : first.ids, first.weight);
      ++i;
      continue;
    }
    std::string text;
    for (; i < segments.size() && segments[i].is_text && !segments[i].guarded && segments[i].weight == first.weight; ++i)
      text += segments[i].text;
    add(tokens(text), first.weight);
  }
  learn_middle_suffixes(sample);
  if (!sample.labels.empty()) sample.labels[0] = kIgnore;
  if (!sample.loss_scale.empty()) sample.loss_scale[0] = 0;
  return sample;
}

// After a response, the masked text starts with the end-of-turn tokens; the model must learn to generate those too.
void SwiftEncoder::learn_middle_suffixes(Sample& sample) const {
  size_t count = sample.labels.size(), length = suffix_ids_.size();
  if (length == 0) return;
  for (size_t at = 1; at < count; ++at) {
    if (sample.labels[at] != kIgnore || sample.labels[at - 1] == kIgnore) continue;
    size_t end = at;
    while (end < count && sample.labels[end] == kIgnore) ++end;
    bool matches =
        end - at >= length && std::equal(suffix_ids_.begin(), suffix_ids_.end(), sample.ids.begin() + static_cast<ptrdiff_t>(at));
    if (matches) {
      std::copy(suffix_ids_.begin(), suffix_ids_.end(), sample.labels.begin() + static_cast<ptrdiff_t>(at));
      if (!sample.loss_scale.empty()) std::fill_n(sample.loss_scale.begin() + static_cast<ptrdiff_t>(at), length, 1.0f);
    }
    at = end;
  }
}

}  // namespace hone::data
