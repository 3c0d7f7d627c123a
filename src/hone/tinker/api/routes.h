// Routes: the handler of a method and path.
#pragma once
#include "hone/tinker/api/call.h"

namespace hone::tinker {

struct Route {
  std::string_view method, path;  // {} matches one part of the path, {*} several
  Handler handler;                // null: the server's own
  bool is_open = false;           // without a key
  bool is_audited = false;        // a line in the audit log

  bool is_training() const { return handler == forward_backward || handler == forward || handler == optim_step; }
};

inline constexpr std::string_view kRetrieveFuture = "/api/v1/retrieve_future", kHealth = "/api/v1/healthz",
                                  kArchive = "/api/v1/archives/{}", kTwinkleModel = "/api/v1/model/{*}/twinkle/{}",
                                  kTwinkleSampler = "/api/v1/sampler/{*}/twinkle/{}",
                                  kTwinkleProcessor = "/api/v1/processor/twinkle/{}";

struct RouteMatch {
  const Route* route = nullptr;
  std::vector<std::string> parts;
};
// Parts are percent-decoded, so that a colon may be written either way. No route: null.
RouteMatch find_route(std::string_view method, std::string_view path);

}  // namespace hone::tinker
