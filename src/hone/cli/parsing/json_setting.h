// Typed members of JSON that an option or a file of another program holds.
#pragma once
#include <string>
#include <string_view>

#include "hone/base/json.h"
#include "hone/cli/option.h"

namespace hone::cli {

// The member `key` of `object`, read as the value of an option of this type is; null: there is none. Throws UserError(usage) that
// begins with `where`, the name of the object.
Json json_setting(std::string_view where, const Json& object, std::string_view key, const Type& type);

// `value`, where it is a mapping, and an empty one for null. Throws UserError(usage) otherwise; `example` shows what is expected.
Json as_mapping(std::string_view where, Json value, std::string_view example);

// The mapping that a JSON or YAML file holds. Throws UserError(usage).
Json read_mapping(const std::string& path, std::string_view example);

}  // namespace hone::cli
