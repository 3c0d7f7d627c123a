#include <stdexcept>

#include "hone/notify/notification.h"

namespace hone::notify {

void send_notification(const NotificationConfig& config, const Notification&) {
  if (config.channel != NotificationChannel::none) throw std::runtime_error("this hone was built without libcurl");
}

}  // namespace hone::notify
