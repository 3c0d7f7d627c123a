// The punctuation of JSON, and the white space that is allowed around it.
#pragma once
#include <vector>

#include "hone/engine/constraints/pattern.h"

namespace hone::engine {

Pattern json_comma();  // and white space
Pattern json_enclosed(const char* open, Pattern inside, const char* close);

// List items separated by commas: at least `min`, at most `max` (-1: unlimited).
Pattern json_list(const Pattern& item, int min, int max);

struct JsonMember {
  Pattern pattern;
  bool required;
};
Pattern json_member(const Pattern& name, const Pattern& content);
// The members of an object in this order; those that are not required may be left out.
Pattern json_members(const std::vector<JsonMember>& members);

}  // namespace hone::engine
