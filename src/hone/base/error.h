// The three kinds of failure: Result<T> for untrusted bytes, UserError for what a user can fix, HONE_CHECK for internal
// invariants.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>  // fmt::join, for messages that list things

#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace hone {

// Exit codes; scripts and schedulers branch on them.
enum class ExitCode : int {
  ok = 0,
  failure = 1,
  usage = 2,
  bad_data = 3,
  bad_checkpoint = 4,
  out_of_memory = 5,
  non_finite = 6,
  lost_peer = 7,
  out_of_space = 8,
  preempted = 75,
  interrupted = 130,
};

// The message states what was found and what was expected; the hint says what to do. Printed as "error: MESSAGE\n  hint: HINT".
// Both name settings in backquotes by their config fields: "raise `max_length`". The command line replaces these by the options
// of the user's dialect (cli/dialect_flags.h).
class UserError : public std::runtime_error {
 public:
  UserError(ExitCode code, std::string message, std::string hint = "")
      : std::runtime_error(std::move(message)), code_(code), hint_(std::move(hint)) {}
  ExitCode code() const { return code_; }
  const std::string& hint() const { return hint_; }

 private:
  ExitCode code_;
  std::string hint_;
};

// Why parsing untrusted bytes failed.
struct Error {
  std::string message;
};

// A value or an Error. Parsers return it and never throw.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  const std::string& error() const { return std::get<1>(state_).message; }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // The value, or a UserError that names the source of the bytes.
  T or_throw(ExitCode code, const std::string& origin, const std::string& hint = "") && {
    if (!ok()) throw UserError(code, origin + ": " + error(), hint);
    return std::move(*this).value();
  }

 private:
  std::variant<T, Error> state_;
};

template <class... Args>
Error error(fmt::format_string<Args...> format, Args&&... args) {
  return Error{fmt::format(format, std::forward<Args>(args)...)};
}

// A violated internal invariant, which is a bug in hone.
class InternalError : public std::logic_error {
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_check(const char* condition, const char* file, int line, const std::string& message);

}  // namespace hone

#define HONE_CHECK(condition, ...)                                                                   \
  do {                                                                                               \
    if (!(condition)) [[unlikely]]                                                                   \
      ::hone::fail_check(#condition, __FILE__, __LINE__, ::fmt::format("" __VA_OPT__(__VA_ARGS__))); \
  } while (false)
