// Regular expressions for the values of "format".
#include <array>
#include <map>

#include "hone/engine/constraints/json_rules.h"

namespace hone::engine {
namespace {

// RFC 3339. Years start at 1, as in most programming languages; leap seconds, which those lack, are excluded. T and Z in upper
// case, as the RFC recommends for writers.
constexpr std::string_view kYear = "(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})";
constexpr std::string_view kByFour = "(0[48]|[2468][048]|[13579][26])";
constexpr std::string_view kDay = "(0[1-9]|1[0-9]|2[0-8])";
constexpr std::string_view kClock = R"(([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9]))";

std::string date_expression() {
  return fmt::format("({0}-((0[1-9]|1[0-2])-{1}|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)|([0-9]{{2}}{2}|{2}00)-02-29)",
                     kYear, kDay, kByFour);
}

// RFC 1123, limited to 249 characters and five labels.
constexpr std::string_view kLabel = "[A-Za-z0-9]([A-Za-z0-9-]{0,47}[A-Za-z0-9])?";
// RFC 5322's dot-atom, limited to 63 characters.
constexpr std::string_view kAtom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]";

std::string host_expression() { return fmt::format(R"({0}(\.{0}){{0,4}})", kLabel); }

std::string address_expression() {
  std::string group = "[0-9a-fA-F]{1,4}", expression = fmt::format("(({0}:){{7}}{0}|({0}:){{1,7}}:|:(:{0}){{1,7}}|::", group);
  for (int before = 1; before <= 6; ++before)
    expression += fmt::format("|({0}:){{{1}}}(:{0}){{1,{2}}}", group, before, 7 - before);
  return expression + ")";
}

// RFC 3986 with "//", without user info and fragment, limited to 2,083 characters, the usual limit of browsers.
std::string uri_expression() {
  return fmt::format(
      R"([A-Za-z][A-Za-z0-9+.-]{{0,15}}://{}(:[0-9]{{1,5}})?(/([A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{{2}}){{0,400}})?(\?([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{{2}}){{0,200}})?)",
      host_expression());
}

std::string duration_expression() {
  std::string time = "T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S)";
  std::string date = "([0-9]+Y([0-9]+M([0-9]+D)?)?|[0-9]+M([0-9]+D)?|[0-9]+D)";
  return fmt::format("P({0}({1})?|{1}|[0-9]+W)", date, time);
}

const std::map<std::string, Pattern>& followed_formats() {
  static const std::map<std::string, Pattern> all{
      {"date", pattern_of(date_expression())},
      {"time", pattern_of(kClock)},
      {"date-time", pattern_of(fmt::format("{}T{}", date_expression(), kClock))},
      {"duration", pattern_of(duration_expression())},
      {"uuid", pattern_of("[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")},
      {"email", pattern_of(fmt::format(R"({0}(\.?{0}){{0,31}}@({1}\.){{1,3}}[A-Za-z]{{2,24}})", kAtom, kLabel))},
      {"hostname", pattern_of(host_expression())},
      {"ipv4", pattern_of("((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])")},
      {"ipv6", pattern_of(address_expression())},
      {"uri", pattern_of(uri_expression())},
  };
  return all;
}

constexpr std::array<std::string_view, 9> kNotFollowed{"idn-email",     "idn-hostname",          "iri",
                                                       "iri-reference", "uri-reference",         "uri-template",
                                                       "json-pointer",  "relative-json-pointer", "regex"};

}  // namespace

std::optional<Pattern> json_format(const std::string& format) {
  if (std::ranges::find(kNotFollowed, format) != kNotFollowed.end())
    throw UnsupportedSchema{fmt::format("the value \"{}\" of \"format\" is not supported", format)};
  auto found = followed_formats().find(format);
  return found == followed_formats().end() ? std::nullopt : std::optional(found->second);
}

}  // namespace hone::engine
