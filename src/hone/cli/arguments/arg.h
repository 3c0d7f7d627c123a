// Options as typed fields. A group of options is a struct; a field names its option and the type of its value once:
//
//   struct LoraArguments : ArgumentGroup {
//     using ArgumentGroup::ArgumentGroup;
//     Arg<int64_t> lora_rank{*this, "lora_rank"};
//   };
//
//   const LoraArguments args(options);
//   config.rank = *args.lora_rank;
//   throw UserError(…, fmt::format("{} is 0", args.lora_rank.flag()));  // "--lora_rank", as the front end writes it
//
// All other code reads fields, so a misspelled name or a wrong type does not compile. Constructing a group costs nothing: a field
// looks its option up when it is read, and only then counts as used (Options::given_but_unread).
#pragma once
#include <concepts>
#include <optional>

#include "hone/cli/options.h"

namespace hone::cli {

class ArgumentGroup {
 public:
  explicit ArgumentGroup(const Options& options) : options_(&options) {}
  const Options& options() const { return *options_; }
  FrontEnd front_end() const { return options_->front_end(); }
  Verbs verb() const { return options_->verb(); }
  bool uses_factory_dialect() const;  // LLaMA-Factory's rules for rows, templates and truncation

 private:
  const Options* options_;
};

// Information about an option besides its value.
class AnyArg {
 public:
  AnyArg(const ArgumentGroup& group, std::string_view option) : options_(&group.options()), option_(option) {}

  std::string_view name() const { return option_; }                      // the table's own, not the front end's
  bool exists() const { return options_->has_option(option_); }          // whether the command has this option
  bool has_value() const { return exists() && options_->has(option_); }  // not none, not an unresolved "auto", not an empty list
  bool is_set() const { return exists() && options_->is_set(option_); }  // not only by a default
  bool is_auto() const { return exists() && options_->setting(option_).is_auto; }
  Source source() const { return options_->source(option_); }
  const std::string& where() const { return options_->setting(option_).where; }  // "train.yaml:7", "--learning_rate"
  const Json& raw() const { return options_->setting(option_).value; }
  std::string text() const { return exists() ? options_->text(option_) : std::string(); }  // any value, as typed
  std::string flag() const { return options_->display_name(option_); }                     // for messages
  std::string required() const { return options_->required(option_); }                     // throws UserError where there is none

 protected:
  const Options* options_;
  std::string_view option_;
};

// The value of an option: bool, int64_t (also bytes), double, std::string, a list of words or numbers, or JSON. Where there is
// none, or the command has no such option: false, "" and an empty list; to read a number is then a mistake of ours. An undecided
// text is "auto". JSON that is a path is opened and read.
template <class Value>
class Arg : public AnyArg {
 public:
  using AnyArg::AnyArg;

  Value operator*() const;
  auto operator->() const { return Held{**this}; }
  explicit operator bool() const requires std::same_as<Value, bool> { return **this; }
  Value value_or(Value otherwise) const { return has_value() ? **this : std::move(otherwise); }
  std::optional<Value> optional() const { return has_value() ? std::optional<Value>(**this) : std::nullopt; }

 private:
  struct Held {
    Value value;
    const Value* operator->() const { return &value; }
  };
};

template <>
bool Arg<bool>::operator*() const;
template <>
int64_t Arg<int64_t>::operator*() const;
template <>
double Arg<double>::operator*() const;
template <>
std::string Arg<std::string>::operator*() const;
template <>
std::vector<std::string> Arg<std::vector<std::string>>::operator*() const;
template <>
std::vector<double> Arg<std::vector<double>>::operator*() const;
template <>
Json Arg<Json>::operator*() const;

}  // namespace hone::cli
