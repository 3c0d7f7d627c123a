#include "hone/train/reports/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <string>

#include "hone/base/log.h"
#include "hone/base/protobuf.h"
#include "hone/train/reports/crc32c.h"

namespace hone::train {
namespace {

template <class T>
void put_raw(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Event{1: wall_time, 2: step, 3: file_version, 5: summary}
ProtobufWriter begin_event() {
  ProtobufWriter event;
  event.real(1, std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
  return event;
}

uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8u; }

}  // namespace

EventFile::EventFile(const fs::path& folder) {
  static std::atomic<int> serial{0};
  fs::create_directories(folder);
  char host[256] = "localhost";
  ::gethostname(host, sizeof host - 1);
  path_ = folder / fmt::format("events.out.tfevents.{}.{}.{}.{}", std::time(nullptr), host, ::getpid(), serial++);
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) throw UserError(ExitCode::usage, fmt::format("{}: cannot create: {}", path_.string(), std::strerror(errno)));
  append(begin_event().bytes(3, "brain.Event:2").take());
}

EventFile::~EventFile() { ::close(fd_); }

void EventFile::add(std::string_view tag, double value, int64_t step) {
  const auto scalar = ProtobufWriter().bytes(1, tag).real32(2, static_cast<float>(value)).take();  // Summary.Value
  append(begin_event().number(2, static_cast<uint64_t>(step)).bytes(5, ProtobufWriter().bytes(1, scalar).take()).take());
}

// length, crc of length, payload, crc of payload: one write, so that a reader following the file sees whole records.
void EventFile::append(std::string_view event) {
  std::string record;
  put_raw(record, static_cast<uint64_t>(event.size()));
  put_raw(record, masked_crc(record));
  record += event;
  put_raw(record, masked_crc(event));
  if (::write(fd_, record.data(), record.size()) != static_cast<ssize_t>(record.size()))
    log::warn_once(fmt::format("{}: cannot write: {}; scalars are missing from it", path_.string(), std::strerror(errno)));
}

}  // namespace hone::train
