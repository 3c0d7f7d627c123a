#include "hone/data/encode/loss_scale.h"

#include <algorithm>
#include <functional>
#include <map>

#include "hone/base/error.h"

namespace hone::data {
namespace {

// A keyword of plain-text agents, its own weight and the weight of the text up to the next keyword.
struct Keyword {
  std::string word;
  double own, after;
};

// Length of the match at the start of `text`, 0 if none.
using Matcher = std::function<size_t(std::string_view text)>;

struct Rule {
  std::vector<Keyword> keywords;  // either these
  std::vector<Matcher> patterns;  // or these, all of one weight
  double weight = 0;
  bool anchored = true;                  // patterns match only at the start of a response
  std::vector<std::string> query_words;  // a query that contains one of these gives the whole response `query_weight`
  double query_weight = 1;
  bool binary = false;
};

size_t blanks(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    auto c = static_cast<unsigned char>(text[at]);
    if ((c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20))
      ++at;
    else if (text.substr(at, 2) == "\xc2\xa0" || text.substr(at, 2) == "\xc2\x85")
      at += 2;
    else if (text.substr(at, 3) == "\xe3\x80\x80" || text.substr(at, 3) == "\xe2\x80\xa8" || text.substr(at, 3) == "\xe2\x80\xa9")
      at += 3;
    else
      break;
  }
  return at;
}

// `words` in sequence, each optionally followed by white space.
Matcher spaced(std::vector<std::string> words) {
  return [words = std::move(words)](std::string_view text) {
    size_t at = 0;
    for (const auto& word : words) {
      if (!text.substr(at).starts_with(word)) return size_t{0};
      at += word.size();
      at += blanks(text.substr(at));
    }
    return at;
  };
}

Matcher exact(std::string word) {
  return [word = std::move(word)](std::string_view text) { return text.starts_with(word) ? word.size() : size_t{0}; };
}

// `open`, at least one character, the nearest `close`.
Matcher enclosed(std::string open, std::string close) {
  return [=](std::string_view text) {
    if (!text.starts_with(open) || text.size() <= open.size()) return size_t{0};
    auto end = text.find(close, open.size() + 1);
    return end == std::string_view::npos ? size_t{0} : end + close.size();
  };
}

Rule words(std::vector<Keyword> keywords) { return {.keywords = std::move(keywords)}; }

const std::map<std::string, Rule, std::less<>>& rules() {
  static const std::map<std::string, Rule, std::less<>> table = {
      {"base", {.binary = true}},
      {"ignore_empty_think",
       {.patterns =
            {spaced({"<think>", "</think>"}),
             spaced(
                 {"<seed:think><seed:cot_budget_reflect>The current thinking budget is 0, so I will directly start answering the "
                  "question.</seed:cot_budget_reflect>\n</seed:think>"}),
             spaced({"</think>"}), exact("<|channel>thought\n<channel|>"), spaced({"</mm:think>"})},
        .binary = true}},
      {"ignore_think_prefix",
       {.patterns = {[](std::string_view text) {
          return text.starts_with("<think>\n") ? size_t{8} : text.starts_with("<think>") ? size_t{7} : size_t{0};
        }},
        .binary = true}},
      {"hermes", {.patterns = {enclosed("<tool_call>", "</tool_call>")}, .weight = 2, .anchored = false}},
      {"react",
       words({{"Action:", 2, 2}, {"Action Input:", 2, 2}, {"Thought:", 1, 1}, {"Final Answer:", 1, 1}, {"Observation:", 2, 0}})},
      {"alpha_umi", words({{"Action:", 2, 2},
                           {"Action Input:", 2, 2},
                           {"Thought:", 1, 1},
                           {"Final Answer:", 1, 1},
                           {"Observation:", 2, 0},
                           {"Next:", 2, 2}})},
      {"qwen", words({{"✿FUNCTION✿:", 2, 2}, {"✿ARGS✿:", 2, 2}, {"✿RETURN✿:", 1, 1}, {"✿RESULT✿:", 2, 0}})},
      {"agentflan",
       {.keywords = {{"Name:", 1, 3},
                     {"Action:", 1, 3},
                     {"ACTION:", 1, 3},
                     {"Tool:", 1, 3},
                     {"Command", 1, 3},
                     {"Arguments:", 1, 3},
                     {"action input", 1, 3},
                     {"ACTION_INPUT:", 1, 3},
                     {"Action Input:", 1, 3},
                     {"Thought:", 1, 1},
                     {"Final Answer:", 1, 1},
                     {"Observation:", 2, 0}},
        .query_words = {"What is the tool you want to use", "What are the required parameter names", "What is the value of"},
        .query_weight = 3}},
  };
  return table;
}

std::vector<WeightedText> split_by_keywords(const Rule& rule, const std::string& text) {
  std::vector<WeightedText> parts;
  size_t begin = 0;
  double weight = 1;
  for (size_t at = 0; at < text.size();) {
    auto found = std::find_if(rule.keywords.begin(), rule.keywords.end(),
                              [&](const Keyword& k) { return text.compare(at, k.word.size(), k.word) == 0; });
    if (found == rule.keywords.end()) {
      ++at;
      continue;
    }
    if (at > begin) parts.push_back({text.substr(begin, at - begin), weight});
    parts.push_back({found->word, found->own});
    begin = at += found->word.size();
    weight = found->after;
  }
  if (begin < text.size()) parts.push_back({text.substr(begin), weight});
  return parts;
}

size_t match(const Rule& rule, std::string_view text) {
  for (const auto& pattern : rule.patterns)
    if (auto length = pattern(text)) return length;
  return 0;
}

// A remainder that itself starts with the pattern gets the pattern's weight too: ms-swift classifies parts after splitting.
std::vector<WeightedText> split_by_patterns(const Rule& rule, const std::string& text) {
  std::vector<WeightedText> parts;
  auto add = [&](size_t begin, size_t end) {
    if (end > begin)
      parts.push_back(
          {text.substr(begin, end - begin), match(rule, std::string_view(text).substr(begin, end - begin)) ? rule.weight : 1.0});
  };
  size_t begin = 0;
  for (size_t at = 0; at < text.size() && (at == 0 || !rule.anchored);) {
    size_t length = match(rule, std::string_view(text).substr(at));
    if (length == 0) {
      ++at;
      continue;
    }
    add(begin, at);
    add(at, at + length);
    begin = at += length;
  }
  add(begin, text.size());
  return parts;
}

// Registered by plugins. Filled by one thread while a command's options are read.
std::map<std::string, PluginLossScale, std::less<>>& plugin_scales() {
  static std::map<std::string, PluginLossScale, std::less<>> table;
  return table;
}

std::vector<WeightedText> apply(const Rule& rule, const std::string& text, const std::string& query) {
  for (const auto& word : rule.query_words)
    if (query.find(word) != std::string::npos) return {{text, rule.query_weight}};
  if (!rule.keywords.empty()) return split_by_keywords(rule, text);
  if (!rule.patterns.empty()) return split_by_patterns(rule, text);
  return {{text, 1}};
}

std::vector<WeightedText> weigh_by(const std::string& name, const std::string& text, const std::string& query) {
  if (const auto rule = rules().find(name); rule != rules().end()) return apply(rule->second, text, query);
  return plugin_scales().at(name).weigh(text, query);
}

}  // namespace

void add_loss_scale(const std::string& name, PluginLossScale scale) { plugin_scales()[name] = std::move(scale); }
bool is_loss_scale(const std::string& name) {
  return name == "default" || name == "last_round" || name == "all" || rules().contains(name);
}

LossScale::LossScale(const std::string& words) {
  static const std::map<std::string, Base, std::less<>> bases = {
      {"default", Base::every_response}, {"last_round", Base::last_round}, {"all", Base::all}};
  for (size_t begin = 0; begin <= words.size();) {
    auto end = std::min(words.find('+', begin), words.size());
    auto word = words.substr(begin, end - begin);
    if (auto base = bases.find(word); begin == 0 && base != bases.end())
      base_ = base->second;
    else if (rules().contains(word) || plugin_scales().contains(word))
      names_.push_back(word);
    else
      throw UserError(ExitCode::usage, "loss_scale \"" + words + "\": unknown word \"" + word + "\"",
                      "a base (default, last_round, all) and names joined by +: ignore_empty_think, ignore_think_prefix, react, "
                      "hermes, qwen, "
                      "agentflan, alpha_umi, or one that a file of `external_plugins` registers");
    begin = end + 1;
  }
}

bool LossScale::binary() const {
  return std::all_of(names_.begin(), names_.end(), [](const std::string& name) {
    const auto rule = rules().find(name);
    return rule != rules().end() ? rule->second.binary : plugin_scales().at(name).binary;
  });
}

bool LossScale::has(std::string_view name) const { return std::find(names_.begin(), names_.end(), name) != names_.end(); }

std::vector<WeightedText> LossScale::weigh(const std::string& text, const std::string& query) const {
  std::vector<WeightedText> parts = {{text, 1}};
  for (const auto& name : names_) {
    std::vector<WeightedText> finer;
    for (const auto& part : parts)
      for (auto& piece : weigh_by(name, part.text, query)) finer.push_back({std::move(piece.text), piece.weight * part.weight});
    parts = std::move(finer);
  }
  return parts;
}

}  // namespace hone::data
