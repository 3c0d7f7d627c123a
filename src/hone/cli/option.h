// One row of the options table: the names of an option in each front end, its type, its defaults, and how hone handles it.
#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "hone/base/error.h"
#include "hone/base/json.h"

namespace hone::cli {

// Selected by the program name. Each front end has its own names and defaults over the same rows.
enum class FrontEnd { hone, swift, factory, accelerate };

// Verbs as bits, so that a row can name the commands it applies to.
using Verbs = uint32_t;
enum Verb : Verbs {
  kSft = 1u << 0,
  kPt = 1u << 1,
  kRlhf = 1u << 2,
  kTrain = 1u << 3,  // LLaMA-Factory's one training verb; `stage` says which
  kInfer = 1u << 4,
  kDeploy = 1u << 5,
  kExport = 1u << 6,
  kEval = 1u << 7,
  kSample = 1u << 8,
  kRollout = 1u << 9,
  kTokenize = 1u << 10,
  kRender = 1u << 11,
  kPreview = 1u << 12,
  kDoctor = 1u << 13,
  kDevices = 1u << 14,
  kOptions = 1u << 15,
  kLogits = 1u << 16,
  kOptimTrace = 1u << 17,
  kOther = 1u << 18,  // help, version, completion, check-args
  kDownload = 1u << 20,
  kCaches = 1u << 21,  // models, scan-cache
  kPlan = 1u << 24,
  kConvertConfig = 1u << 25,
  kServeTinker = 1u << 26,
  kBench = 1u << 30,
};
inline constexpr Verbs kTraining = kSft | kPt | kRlhf | kTrain;
inline constexpr Verbs kServing = kDeploy | kRollout | kEval | kServeTinker;
inline constexpr Verbs kGenerating = kInfer | kServing | kSample;
inline constexpr Verbs kModelUsers = kTraining | kGenerating | kExport;
inline constexpr Verbs kDataUsers = kModelUsers | kPreview;
inline constexpr Verbs kEveryVerb = ~Verbs{0};

enum class Kind { flag, integer, real, text, path, choice, list, json, bytes };

struct Type {
  Kind kind;
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  std::string_view choices = {};  // "a|b|c"
};
inline constexpr Type Flag{Kind::flag}, Text{Kind::text}, Path{Kind::path}, List{Kind::list}, JsonText{Kind::json},
    Bytes{Kind::bytes, 0};
constexpr Type Integer(double low = -std::numeric_limits<double>::infinity(),
                       double high = std::numeric_limits<double>::infinity()) {
  return {Kind::integer, low, high};
}
constexpr Type Real(double low = -std::numeric_limits<double>::infinity(),
                    double high = std::numeric_limits<double>::infinity()) {
  return {Kind::real, low, high};
}
constexpr Type Choice(std::string_view choices) { return {Kind::choice, 0, 0, choices}; }

// supported: has its effect. always_on: hone always does it, and `reason` explains that to users who request something else.
// no_effect: cannot matter here, `reason` says why. rejected: `reason` names the alternative.
enum class Status { supported, always_on, no_effect, rejected };
std::string_view status_name(Status status);  // "supported", "always so", "accepted", "refused"

// How the value under another name becomes this row's value.
struct Alias {
  std::string_view name;
  bool factory = false;          // LLaMA-Factory's name of it, shown in that front end's help
  bool negated = false;          // disable_gradient_checkpointing
  std::string_view values = {};  // "all=all-linear|fa2=flash_attention_2"
  std::string_view unit = {};    // appended to a bare number: export_size 5 is 5GB
};

struct VerbDefault {
  Verbs verbs = 0;
  std::string_view value;
};

struct Option {
  std::string_view name;
  Type type;
  std::string_view fallback;  // as typed; "" is none, resolve_auto.cpp replaces "auto"
  std::string_view help;
  std::array<Alias, 5> aliases{};
  uint8_t alias_count = 0;
  std::array<VerbDefault, 2> verb_defaults{};
  bool factory_differs = false;
  std::string_view factory_fallback = {};
  Status status = Status::supported;
  std::string_view reason = {};
  std::string_view always_value = {};  // what hone does anyway, as typed
  std::string_view variable = {};      // environment variable that sets it
  char letter = 0;
  bool factory_only = false;
  bool swift_only = false;
  Verbs verbs = 0;  // 0: those of the group
  std::string_view group = {};

  template <class... Notes>
  constexpr Option(std::string_view option_name, Type option_type, std::string_view start, std::string_view text, Notes... notes)
      : name(option_name), type(option_type), fallback(start), help(text) {
    (notes.apply(*this), ...);
  }
  std::span<const Alias> other_names() const { return {aliases.data(), alias_count}; }
};

// Attributes of a row, written after its help text.
namespace note {
struct also {  // an older or plainer name
  std::string_view name;
  std::string_view values = {};
  constexpr void apply(Option& o) const { o.aliases[o.alias_count++] = {.name = name, .values = values}; }
};
struct factory {  // the name LLaMA-Factory gives it
  std::string_view name;
  std::string_view values = {};
  constexpr void apply(Option& o) const { o.aliases[o.alias_count++] = {.name = name, .factory = true, .values = values}; }
};
struct factory_not {
  std::string_view name;
  constexpr void apply(Option& o) const { o.aliases[o.alias_count++] = {.name = name, .factory = true, .negated = true}; }
};
struct factory_unit {
  std::string_view name, unit;
  constexpr void apply(Option& o) const { o.aliases[o.alias_count++] = {.name = name, .factory = true, .unit = unit}; }
};
struct factory_default {
  std::string_view value;
  constexpr void apply(Option& o) const { o.factory_differs = true, o.factory_fallback = value; }
};
struct on {  // another default for some verbs
  Verbs verbs;
  std::string_view value;
  constexpr void apply(Option& o) const { o.verb_defaults[o.verb_defaults[0].verbs ? 1 : 0] = {verbs, value}; }
};
struct verbs {
  Verbs mask;
  constexpr void apply(Option& o) const { o.verbs = mask; }
};
struct letter {
  char value;
  constexpr void apply(Option& o) const { o.letter = value; }
};
struct environment {
  std::string_view variable;
  constexpr void apply(Option& o) const { o.variable = variable; }
};
struct no_effect {
  std::string_view reason;
  constexpr void apply(Option& o) const { o.status = Status::no_effect, o.reason = reason; }
};
struct always_on {
  std::string_view value, reason;
  constexpr void apply(Option& o) const { o.status = Status::always_on, o.always_value = value, o.reason = reason; }
};
struct rejected {
  std::string_view reason;
  constexpr void apply(Option& o) const { o.status = Status::rejected, o.reason = reason; }
};
struct only_factory {
  constexpr void apply(Option& o) const { o.factory_only = true; }
};
struct only_swift {
  constexpr void apply(Option& o) const { o.swift_only = true; }
};
}  // namespace note

// The value of `given` (a string from the command line, or a typed value from a file) for this option, checked against its type,
// range and choices. `commas` splits a list's single string at commas, LLaMA-Factory's syntax.
Result<Json> read_value(const Option& option, const Json& given, bool commas = false);

// Whether this option's value is secret: neither args.json nor --show_config shows it. A bot's URL is secret: anyone who has it
// can post there.
bool is_secret(std::string_view option);
// The value with "(hidden)" for the name and password in addresses such as https://name:password@host.
Json without_passwords(Json value);

// "INT >= 1", "lora|full|freeze", "true|false" … for help and error messages.
std::string describe(const Type& type);
std::string show_value(const Json& value);

}  // namespace hone::cli
