#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>

#include "hone/base/error.h"
#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/base/strings/counted.h"
#include "hone/hub/cache.h"
#include "hone/hub/download.h"
#include "hone/hub/with_curl/digest.h"
#include "hone/hub/with_curl/interrupt.h"
#include "hone/hub/with_curl/transfer.h"

namespace hone::hub {
namespace {

// Lets one process at a time download into a folder.
class FileLock {
 public:
  // Waits for the lock; `waiting` is called once if another process holds it, then repeatedly until it is free, and may throw.
  FileLock(const std::filesystem::path& path, const std::function<void(bool first)>& waiting);
  ~FileLock();  // removes the file
  FileLock(const FileLock&) = delete;

 private:
  bool take();
  std::filesystem::path path_;
  int fd_ = -1;
};

namespace fs = std::filesystem;

FileLock::FileLock(const fs::path& path, const std::function<void(bool first)>& waiting) : path_(path) {
  for (bool first = true; !take(); first = false) {
    waiting(first);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

bool FileLock::take() {
  fs::create_directories(path_.parent_path());
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0 && errno == ENOENT) return false;  // the previous holder removed the folder
  if (fd_ < 0)
    throw UserError(ExitCode::failure, fmt::format("{}: cannot create: {}", path_.string(), std::strerror(errno)),
                    "check who may write there");
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) {
    // The previous holder removes the file: a lock on an unlinked file protects nothing.
    struct stat held, named;
    if (::fstat(fd_, &held) == 0 && ::stat(path_.c_str(), &named) == 0 && held.st_ino == named.st_ino) return true;
  } else if (errno != EWOULDBLOCK && errno != EINTR) {
    log::warn_once(fmt::format("{}: this file system has no locks ({}); do not download the same thing twice at once",
                               path_.string(), std::strerror(errno)));
    return true;
  }
  ::close(fd_);
  fd_ = -1;
  return false;
}

FileLock::~FileLock() {
  std::error_code ignored;
  fs::remove(path_, ignored);
  if (fd_ >= 0) ::close(fd_);
}

constexpr uint64_t kSpare = 256 << 20;  // reserve, since a completely full disk affects other programs

void refuse_what_cannot_load(const Repo& repo, const std::vector<RemoteFile>& files) {
  if (repo.kind == Kind::model && only_pickled_weights(files))
    throw UserError(
        ExitCode::usage,
        fmt::format("{}: its weights are pickled (.bin, .pt), which hone does not read: loading them can run code", repo.id),
        "look for a revision with safetensors, or convert it with transformers' save_pretrained");
}

// An existing file counts if it matches the listing. Blobs are named by checksum; other files are hashed.
bool is_here(const RemoteFile& listed, const fs::path& target, bool by_name) {
  std::error_code error;
  if (!fs::is_regular_file(target, error) || fs::file_size(target, error) != listed.size || error) return false;
  return by_name || has_checksum(target, listed);
}

std::vector<WantedFile> absent_files(const std::vector<RemoteFile>& files, const CacheLocation& place) {
  std::vector<WantedFile> absent;
  for (const auto& file : files) {
    auto target = place.blobs ? place.root / "blobs" / file.checksum() : place.snapshot / file.path;
    bool twice =
        place.blobs && std::any_of(absent.begin(), absent.end(), [&](const WantedFile& other) { return other.target == target; });
    if (twice || is_here(file, target, place.blobs)) continue;
    auto name = place.blobs ? file.checksum() : fmt::format("{:016x}", std::hash<std::string>()(file.path));
    absent.push_back({file, place.partial() / (name + ".part"), target});
  }
  return absent;
}

void check_space(const std::vector<WantedFile>& files, const fs::path& folder) {
  uint64_t total = bytes_listed(files), begun = bytes_begun(files), needed = total - std::min(total, begun);
  std::error_code error;
  auto space = fs::space(folder, error);
  if (error || needed + kSpare <= space.available) return;
  throw UserError(ExitCode::out_of_space,
                  fmt::format("{}: {} are free, {} are needed", folder.string(),
                              format_bytes(static_cast<double>(space.available)), format_bytes(static_cast<double>(needed))),
                  "make room, or choose another place by `cache_dir`, MODELSCOPE_CACHE or HF_HUB_CACHE");
}

// snapshots/<commit>/a/b.json -> ../../../../blobs/<checksum>
void link_blob(const CacheLocation& place, const RemoteFile& file) {
  auto link = place.snapshot / file.path, blob = place.root / "blobs" / file.checksum();
  fs::create_directories(link.parent_path());
  auto aim = blob.lexically_relative(link.parent_path());
  std::error_code error;
  if (fs::read_symlink(link, error) == aim && !error) return;
  auto staging = link;
  staging += fmt::format(".tmp.{}", ::getpid());
  fs::create_symlink(aim, staging);
  fs::rename(staging, link);
}

void write_ref(const CacheLocation& place, const std::string& branch, const std::string& commit) {
  if (branch == commit) return;
  auto ref = place.root / "refs" / branch;
  fs::create_directories(ref.parent_path());
  write_file_atomically(ref, commit);
}

void fetch_into(const CacheLocation& place, const Remote& remote, const std::string& commit,
                const std::vector<RemoteFile>& files) {
  auto absent = absent_files(files, place);
  if (!absent.empty()) {
    check_space(absent, place.root);
    auto bytes = bytes_listed(absent);
    log::info("{}: {}, {} from {} to {}", remote.repo().id, counted(absent.size(), "file"),
              format_bytes(static_cast<double>(bytes)), remote.access().endpoint, place.snapshot.string());
    if (!place.blobs) write_file_atomically(place.unfinished(), "");
    transfer(remote, commit, absent);
  }
  for (const auto& file : files)
    if (place.blobs) link_blob(place, file);
  std::error_code ignored;
  fs::remove(place.unfinished(), ignored);
}

}  // namespace

bool can_download() { return true; }

fs::path download(const DownloadRequest& request) {
  InterruptGuard guard;
  Remote remote(access_to(request.repo.site), request.repo);
  auto listing = remote.list();
  if (request.to_be_loaded) refuse_what_cannot_load(request.repo, listing.files);
  auto files = filter_files(listing.files, request.patterns, request.repo.kind);
  if (files.empty())
    throw UserError(ExitCode::usage, fmt::format("{}: none of its {} files matches", request.repo.id, listing.files.size()),
                    "check the id and the patterns");
  CacheLocation place = request.local_dir ? CacheLocation{*request.local_dir, *request.local_dir, false}
                                          : new_place(request.repo, remote.access().cache, listing.commit);
  fs::create_directories(place.root);
  {
    FileLock lock(place.partial() / "lock", [&](bool first) {
      throw_if_interrupted();
      if (first) log::info("{}: another process is fetching it; waiting", request.repo.id);
    });
    fetch_into(place, remote, listing.commit, files);
    if (place.blobs) write_ref(place, request.repo.branch(), listing.commit);
    if (request.local_dir) write_file_atomically(download_note(*request.local_dir), request.repo.id + "\n");
  }
  std::error_code ignored;
  fs::remove(place.partial(), ignored);  // if it is empty
  return place.snapshot;
}

}  // namespace hone::hub
