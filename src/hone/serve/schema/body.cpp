#include "hone/serve/schema/body.h"

#include <unordered_set>

namespace hone::serve {
namespace {

// Observes nlohmann's parser and stops it at the first exceeded limit.
class Builder : public nlohmann::detail::json_sax_dom_parser<Json> {
  using Base = nlohmann::detail::json_sax_dom_parser<Json>;

 public:
  Builder(Json& out, const BodyLimits& limits) : Base(out, false), limits_(limits) {}
  bool null() { return count() && Base::null(); }
  bool boolean(bool value) { return count() && Base::boolean(value); }
  bool number_integer(int64_t value) { return count() && Base::number_integer(value); }
  bool number_unsigned(uint64_t value) { return count() && Base::number_unsigned(value); }
  bool number_float(double value, const std::string& text) { return count() && Base::number_float(value, text); }
  bool string(std::string& value) { return count() && Base::string(value); }
  bool start_object(size_t size) { return enter() && Base::start_object(size); }
  bool start_array(size_t size) { return enter() && Base::start_array(size); }
  bool end_object() { return leave(), Base::end_object(); }
  bool end_array() { return leave(), Base::end_array(); }
  bool key(std::string& name) {
    auto& seen = keys_.back();
    if (seen.size() >= limits_.keys_per_object)
      return stop(fmt::format("an object has more than {} keys", limits_.keys_per_object));
    if (!seen.insert(name).second) return stop(fmt::format("the key \"{}\" occurs twice", name.substr(0, 64)));
    return Base::key(name);
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) {
    return stop(fmt::format("not JSON at byte {}", position));
  }
  const std::string& message() const { return message_; }

 private:
  bool stop(std::string message) {
    if (message_.empty()) message_ = std::move(message);
    return false;
  }
  bool count() { return ++values_ <= limits_.values || stop(fmt::format("more than {} values", limits_.values)); }
  bool enter() {
    if (keys_.size() >= static_cast<size_t>(limits_.depth))
      return stop(fmt::format("nested deeper than {} levels", limits_.depth));
    keys_.emplace_back();
    return count();
  }
  void leave() { keys_.pop_back(); }

  const BodyLimits& limits_;
  std::vector<std::unordered_set<std::string>> keys_;
  size_t values_ = 0;
  std::string message_;
};

}  // namespace

Result<Json> parse_body(std::string_view text, const BodyLimits& limits) {
  Json value;
  Builder builder(value, limits);
  if (!Json::sax_parse(text, &builder))
    return error("the body is not usable: {}", builder.message().empty() ? "not JSON" : builder.message());
  if (!value.is_object()) return error("the body must be a JSON object");
  return value;
}

}  // namespace hone::serve
