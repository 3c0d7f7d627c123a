#include "hone/hub/post_json.h"

namespace hone::hub {
namespace {

constexpr const char* kWhy = "this build has no libcurl and opens no connections; install libcurl4-openssl-dev and build again";

}  // namespace

std::optional<PostAddress> read_address(const std::string&) { throw std::runtime_error(kWhy); }
std::string post_json(const std::string&, const std::string&, const PostOptions&) { throw std::runtime_error(kWhy); }
void require_listener(const std::string&, std::chrono::seconds) { throw std::runtime_error(kWhy); }

}  // namespace hone::hub
