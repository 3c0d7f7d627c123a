// Numbers with their nouns, for messages: "1 token", "2 tokens".
#pragma once
#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace hone {

std::string counted(std::integral auto count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace hone
