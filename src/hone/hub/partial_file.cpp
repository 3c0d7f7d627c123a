#include "hone/hub/partial_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "hone/base/error.h"
#include "hone/base/fault_injection.h"
#include "hone/base/file.h"
#include "hone/base/json.h"

namespace hone::hub {
namespace {

constexpr auto kSaveInterval = std::chrono::seconds(1);

[[noreturn]] void fail(const fs::path& path, const char* doing, int code) {
  bool full = code == ENOSPC || code == EDQUOT;
  throw UserError(full ? ExitCode::out_of_space : ExitCode::failure,
                  fmt::format("{}: cannot {}: {}", path.string(), doing, std::strerror(code)),
                  full ? "make room and run the command again: what has arrived is kept" : "");
}

}  // namespace

PartialFile::PartialFile(fs::path path, uint64_t size, std::string checksum, uint64_t piece_size)
    : path_(std::move(path)), size_(size), range_size_(piece_size), checksum_(std::move(checksum)) {
  fs::create_directories(path_.parent_path());
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) fail(path_, "create", errno);
  if (!resume()) restart(false);
}

PartialFile::~PartialFile() {
  if (!finished_) try {
      save();
    } catch (const std::exception&) {  // without a journal the file is merely downloaded again
    }
  if (fd_ >= 0) ::close(fd_);
}

fs::path PartialFile::journal() const { return path_.string() + ".json"; }

void PartialFile::split_into_ranges(uint64_t piece_size) {
  ranges_.clear();
  for (uint64_t begin = 0; begin < size_ || begin == 0; begin += piece_size) {
    auto& piece = ranges_.emplace_back();
    piece.begin = begin;
    piece.end = std::min(begin + piece_size, size_);
    if (size_ - begin <= piece_size) break;
  }
}

void PartialFile::restart(bool one_piece) {
  std::lock_guard lock(mutex_);
  if (::ftruncate(fd_, 0) != 0) fail(path_, "empty", errno);
  validator_.clear();
  split_into_ranges(one_piece ? std::max<uint64_t>(size_, 1) : range_size_);
}

bool PartialFile::resume() {
  struct stat info;
  if (!fs::is_regular_file(journal()) || ::fstat(fd_, &info) != 0) return false;
  auto parsed = parse_json(read_file(journal()));
  if (!parsed || !parsed->is_object()) return false;
  try {
    const Json& saved = *parsed;
    if (saved.at("size").get<uint64_t>() != size_ || saved.at("checksum").get<std::string>() != checksum_) return false;
    uint64_t expected = 0;
    for (const auto& row : saved.at("pieces")) {
      auto& piece = ranges_.emplace_back();
      piece.begin = row.at(0), piece.end = row.at(1), piece.done = row.at(2).get<uint64_t>();
      bool fits =
          piece.begin == expected && piece.end >= piece.begin && piece.end <= size_ && piece.done <= piece.end - piece.begin;
      // The journal may have reached the disk before the data.
      if (!fits || (piece.done > 0 && piece.begin + piece.done > static_cast<uint64_t>(info.st_size))) return false;
      expected = piece.end;
    }
    validator_ = saved.at("validator").get<std::string>();
    return expected == size_ && !ranges_.empty();
  } catch (const Json::exception&) {
    return false;
  }
}

uint64_t PartialFile::done() const {
  uint64_t total = 0;
  for (const auto& piece : ranges_) total += piece.done;
  return total;
}

void PartialFile::write(ByteRange& piece, std::span<const char> bytes) {
  HONE_CHECK(bytes.size() <= piece.end - piece.begin - piece.done);
  try {
    fault("hub.write");
  } catch (const std::system_error& full) {
    fail(path_, "write", full.code().value());
  }
  while (!bytes.empty()) {
    auto written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(piece.begin + piece.done));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "write", errno);
    piece.done += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || std::chrono::steady_clock::now() - saved_ < kSaveInterval) return;
  save();
}

// Not synced: the checksum detects what a system crash may have lost.
void PartialFile::save() {
  Json rows = Json::array();
  for (const auto& piece : ranges_) rows.push_back({piece.begin, piece.end, piece.done.load()});
  auto text = Json{{"size", size_}, {"checksum", checksum_}, {"validator", validator_}, {"pieces", rows}}.dump();
  auto staging = journal().string() + ".new";
  int fd = ::open(staging.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) fail(staging, "create", errno);
  auto written = ::write(fd, text.data(), text.size());
  int code = errno;
  ::close(fd);
  if (written != static_cast<ssize_t>(text.size())) fail(staging, "write", written < 0 ? code : ENOSPC);
  fs::rename(staging, journal());
  saved_ = std::chrono::steady_clock::now();
}

std::string PartialFile::validator() const {
  std::lock_guard lock(mutex_);
  return validator_;
}

void PartialFile::set_validator(const std::string& etag) {
  std::lock_guard lock(mutex_);
  validator_ = etag;
}

void PartialFile::finish(const fs::path& target) {
  if (::fsync(fd_) != 0) fail(path_, "sync", errno);
  fault("hub.before_rename");
  fs::create_directories(target.parent_path());
  fs::rename(path_, target);
  finished_ = true;
  std::error_code ignored;
  fs::remove(journal(), ignored);
}

void PartialFile::discard() {
  finished_ = true;
  std::error_code ignored;
  fs::remove(path_, ignored);
  fs::remove(journal(), ignored);
}

}  // namespace hone::hub
