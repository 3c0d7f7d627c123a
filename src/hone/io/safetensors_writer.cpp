#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "hone/base/error.h"
#include "hone/base/file.h"
#include "hone/base/json.h"
#include "hone/io/safetensors.h"
#include "hone/io/safetensors_bytes.h"
#include "hone/io/safetensors_types.h"

namespace hone::io {
namespace {

constexpr size_t kAlignment = 64;  // so that a mapped tensor starts on a cache line

// A file that gets its name only when complete; an incomplete one is removed.
class StagedFile {
 public:
  explicit StagedFile(const fs::path& path) : path_(path), staging_(path.string() + fmt::format(".tmp.{}", ::getpid())) {
    fd_ = ::open(staging_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd_ < 0) fail("create");
  }
  ~StagedFile() {
    if (fd_ < 0) return;
    ::close(fd_);
    ::unlink(staging_.c_str());
  }
  StagedFile(const StagedFile&) = delete;

  void write(const void* data, size_t size) {
    const char* next = static_cast<const char*>(data);
    while (size > 0) {
      ssize_t written = ::write(fd_, next, std::min(size, size_t{1} << 30));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("write");
      next += written;
      size -= static_cast<size_t>(written);
    }
  }
  void finish() {
    if (::fsync(fd_) != 0) fail("sync");
    ::close(fd_);
    fd_ = -1;
    if (::rename(staging_.c_str(), path_.c_str()) != 0) fail("rename into place");
    sync_directory(path_.parent_path().empty() ? "." : path_.parent_path());
  }

 private:
  [[noreturn]] void fail(const char* doing) const {
    const int cause = errno;
    bool full = cause == ENOSPC || cause == EDQUOT;
    throw UserError(full ? ExitCode::out_of_space : ExitCode::failure,
                    fmt::format("{}: cannot {}: {}", path_.string(), doing, std::strerror(cause)),
                    full ? "free some space, or choose another output folder" : "");
  }
  fs::path path_;
  std::string staging_;
  int fd_ = -1;
};

std::string header_text(const std::vector<TensorSource>& tensors, const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  size_t position = 0;
  for (const auto& tensor : tensors) {
    size_t end = position + tensor.bytes();
    header[tensor.name] = {{"dtype", name_of(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {position, end}}};
    position = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 8 + kAlignment - 1) / kAlignment * kAlignment - 8, ' ');
  return text;
}

}  // namespace

size_t TensorSource::bytes() const { return static_cast<size_t>(c10::multiply_integers(shape)) * c10::elementSize(dtype); }

TensorSource TensorSource::of(std::string name, const Tensor& tensor, std::optional<at::ScalarType> dtype) {
  return {std::move(name), dtype.value_or(tensor.scalar_type()), tensor.sizes().vec(), [tensor] { return tensor; }};
}

std::string safetensors_bytes(const std::vector<TensorSource>& tensors, const std::map<std::string, std::string>& metadata) {
  const auto header = header_text(tensors, metadata);
  const uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  bytes += header;
  for (const auto& source : tensors) {
    const auto tensor = source.load().detach().to(at::kCPU, source.dtype).contiguous();
    HONE_CHECK(tensor.sizes() == at::IntArrayRef(source.shape), "{} changed its shape", source.name);
    bytes.append(static_cast<const char*>(tensor.const_data_ptr()), source.bytes());
  }
  return bytes;
}

void write_safetensors(const fs::path& path, const std::vector<TensorSource>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  StagedFile file(path);
  auto header = header_text(tensors, metadata);
  uint64_t length = header.size();
  file.write(&length, sizeof length);
  file.write(header.data(), header.size());
  for (const auto& source : tensors) {
    auto tensor = source.load().detach().to(at::kCPU, source.dtype).contiguous();
    HONE_CHECK(tensor.sizes() == at::IntArrayRef(source.shape), "{} changed its shape", source.name);
    file.write(tensor.const_data_ptr(), source.bytes());
  }
  file.finish();
}

}  // namespace hone::io
