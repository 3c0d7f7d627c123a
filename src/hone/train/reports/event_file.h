// Writes scalars as a TensorBoard event file: TFRecord frames around hand-encoded Event messages.
#pragma once
#include <cstdint>
#include <string_view>

#include "hone/base/file.h"

namespace hone::train {

class EventFile {
 public:
  // Creates `folder` and a new events.out.tfevents file in it. A run continued in the same folder adds another file, as
  // TensorBoard expects.
  explicit EventFile(const fs::path& folder);
  ~EventFile();
  EventFile(const EventFile&) = delete;

  void add(std::string_view tag, double value, int64_t step);
  const fs::path& path() const { return path_; }

 private:
  void append(std::string_view event);
  fs::path path_;
  int fd_ = -1;
};

}  // namespace hone::train
