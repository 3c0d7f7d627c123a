#include "hone/hub/http_call.h"

namespace hone::hub {

HttpAnswer http_call(const HttpCall&) {
  return {0, "", "this build has no libcurl and opens no connections; install libcurl4-openssl-dev and build again"};
}

}  // namespace hone::hub
