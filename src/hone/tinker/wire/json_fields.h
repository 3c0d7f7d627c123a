// Typed access to fields of a JSON request. Absent and null are the same.
#pragma once
#include <limits>
#include <string>

#include "hone/base/json.h"
#include "hone/tinker/wire/request_error.h"

namespace hone::tinker {

bool has_field(const Json& body, const char* name);
// All throw RequestError naming the field, what was found and what is expected.
std::string text_field(const Json& body, const char* name, const std::string& otherwise);
std::string required_text(const Json& body, const char* name);
// Letters, digits, '.', '_' and '-'; for other texts and longer ones the message.
std::string required_name(const Json& body, const char* name, size_t most, const char* message);
int64_t integer_field(const Json& body, const char* name, int64_t otherwise, int64_t low = std::numeric_limits<int64_t>::min(),
                      int64_t high = std::numeric_limits<int64_t>::max());
int64_t required_integer(const Json& body, const char* name, int64_t low);
double real_field(const Json& body, const char* name, double otherwise, double low, double high);
bool flag_field(const Json& body, const char* name, bool otherwise);
double ttl_seconds(const Json& body);  // of a checkpoint, in a body that has them: 1 second to 10 years

}  // namespace hone::tinker
