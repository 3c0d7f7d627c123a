#include "hone/io/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace hone::io {

// Private and writable: full fine-tuning may update weights in place, copying only the pages it touches.
class SafetensorsFile::Map {
 public:
  explicit Map(const fs::path& path) {
    int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // do not block on a pipe
    struct stat info {};
    bool regular = fd >= 0 && ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    size_ = regular ? static_cast<size_t>(info.st_size) : 0;
    void* address = size_ ? ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0) : nullptr;
    int cause = errno;
    if (fd >= 0) ::close(fd);
    if (!regular || address == MAP_FAILED)
      throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: cannot read: {}", path.string(),
                                                            fd >= 0 && !regular ? "not a regular file" : std::strerror(cause)));
    data_ = static_cast<char*>(address);
    if (data_) ::madvise(data_, size_, MADV_WILLNEED);
  }
  ~Map() {
    if (data_) ::munmap(data_, size_);
  }
  Map(const Map&) = delete;

  std::string_view text() const { return {data_, size_}; }
  char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
};

SafetensorsFile::SafetensorsFile(const fs::path& path) : path_(path), map_(std::make_shared<Map>(path)) {
  header_ = parse_safetensors_header(map_->text(), map_->size())
                .or_throw(ExitCode::bad_checkpoint, path.string(), "fetch or save the file again");
  for (size_t i = 0; i < header_.entries.size(); ++i) index_.emplace(header_.entries[i].name, i);
}

bool SafetensorsFile::contains(std::string_view name) const { return index_.contains(name); }

Tensor SafetensorsFile::tensor(std::string_view name) const {
  auto found = index_.find(name);
  if (found == index_.end())
    throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: has no tensor \"{}\"", path_.string(), name));
  return tensor(header_.entries[found->second]);
}

Tensor SafetensorsFile::tensor(const TensorEntry& entry) const {
  auto options = at::TensorOptions(entry.dtype);
  if (entry.begin == entry.end) return at::empty(entry.shape, options);
  char* data = map_->data() + header_.data_offset + entry.begin;
  if (reinterpret_cast<uintptr_t>(data) % c10::elementSize(entry.dtype) == 0)
    return at::from_blob(
        data, entry.shape, [map = map_](void*) {}, options);
  auto copy = at::empty(entry.shape, options);  // the format does not guarantee alignment
  std::memcpy(copy.mutable_data_ptr(), data, entry.end - entry.begin);
  return copy;
}

}  // namespace hone::io
