// Parses and rounds numbers as Python does.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "hone/text/jinja/value.h"

namespace hone::text::jinja {

std::optional<int64_t> parse_integer(std::string_view text,
                                     int64_t base);       // int(text, base); throws when it does not fit 64 bits
std::optional<double> parse_real(std::string_view text);  // float(text)
int64_t truncate_real(double value);                      // int(value); throws for what has no integer
double round_real(double value, int64_t digits);          // round(value, digits): half to even on the exact value
Value round_integer(int64_t value, int64_t digits);

}  // namespace hone::text::jinja
