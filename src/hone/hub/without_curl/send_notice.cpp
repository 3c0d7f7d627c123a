#include <stdexcept>

#include "hone/hub/notice.h"

namespace hone::hub {

void send_notice(const NoticeConfig& config, const Notice&) {
  if (config.way != NoticeWay::none) throw std::runtime_error("this hone was built without libcurl");
}

}  // namespace hone::hub
