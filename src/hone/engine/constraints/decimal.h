// Arbitrary-precision decimal numbers, exactly as JSON writes them, for number bounds. Internal to this folder.
#pragma once
#include <string>

#include "hone/base/json.h"

namespace hone::engine {

// An integer: digits without leading zeros ("0" is never negative).
struct WholeNumber {
  bool negative = false;
  std::string digits = "0";

  bool operator==(const WholeNumber&) const = default;
};
bool operator<(const WholeNumber& one, const WholeNumber& other);
WholeNumber plus_one(const WholeNumber& number);
WholeNumber minus_one(const WholeNumber& number);

// number * 10^decimals, rounded to a whole one.
WholeNumber scaled_up(const Json& number, int decimals);    // towards more
WholeNumber scaled_down(const Json& number, int decimals);  // towards less

}  // namespace hone::engine
