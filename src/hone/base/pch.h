// Precompiled for components without libtorch.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json_fwd.hpp>
#include <string>

// What the literals "..."_json of json.hpp need of nlohmann::json. hone uses ordered_json alone, and every file would instantiate
// the parser of the other for them: half a second each.
template <>
class nlohmann::basic_json<> {
 public:
  using json_pointer = nlohmann::json_pointer<std::string>;
  static basic_json parse(const char* begin, const char* end);
};

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>
