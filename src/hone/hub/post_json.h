// One JSON text sent, one answer read. Two builds do it: with libcurl, and without, which only explains.
#pragma once
#include <chrono>
#include <string>

namespace hone::hub {

// Throws std::runtime_error that says why there is no 2xx answer within `patience`. Nothing is sent twice.
std::string post_json(const std::string& address, const std::string& body, std::chrono::seconds patience);

}  // namespace hone::hub
