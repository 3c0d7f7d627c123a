#include "hone/train/reports/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <string>

#include "hone/base/log.h"
#include "hone/train/reports/crc32c.h"

namespace hone::train {
namespace {

// Protocol buffer wire types used by Event{1: wall_time double, 2: step varint, 3: file_version string, 5: summary}.
enum class Wire : uint64_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

template <class T>
void put_raw(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_key(std::string& out, uint64_t field, Wire wire) { put_varint(out, field << 3 | static_cast<uint64_t>(wire)); }

void put_bytes(std::string& out, uint64_t field, std::string_view bytes) {
  put_key(out, field, Wire::bytes);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string begin_event() {
  std::string event;
  put_key(event, 1, Wire::fixed64);
  put_raw(event, std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
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
  auto event = begin_event();
  put_bytes(event, 3, "brain.Event:2");
  append(event);
}

EventFile::~EventFile() { ::close(fd_); }

void EventFile::add(std::string_view tag, double value, int64_t step) {
  std::string scalar;  // Summary.Value{1: tag, 2: simple_value}
  put_bytes(scalar, 1, tag);
  put_key(scalar, 2, Wire::fixed32);
  put_raw(scalar, static_cast<float>(value));
  std::string summary;
  put_bytes(summary, 1, scalar);
  auto event = begin_event();
  put_key(event, 2, Wire::varint);
  put_varint(event, static_cast<uint64_t>(step));
  put_bytes(event, 5, summary);
  append(event);
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
