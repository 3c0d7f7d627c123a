#include "hone/model/encoders/tower_cache.h"

#include <openssl/evp.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>

#include "hone/base/error.h"
#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/base/strings/hex.h"
#include "hone/base/version.h"
#include "hone/io/safetensors.h"

namespace hone::model {
namespace {

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    HONE_CHECK(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1, "OpenSSL has no SHA-256");
  }
  Sha256& add(std::string_view text) {
    HONE_CHECK(EVP_DigestUpdate(context_.get(), text.data(), text.size()) == 1, "OpenSSL refused to hash");
    return *this;
  }
  Sha256& add(const Tensor& tensor) {
    const auto here = tensor.detach().to(at::kCPU).contiguous();
    add(fmt::format("{} {} ", c10::toString(here.scalar_type()), fmt::join(here.sizes(), "x")));
    return add({static_cast<const char*>(here.const_data_ptr()), here.nbytes()});
  }
  std::string hex() {
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    HONE_CHECK(EVP_DigestFinal_ex(context_.get(), bytes, &length) == 1, "OpenSSL refused to hash");
    return hex_digits({reinterpret_cast<const char*>(bytes), length});
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

std::string content_digest(const TensorList& tensors) {
  Sha256 hash;
  for (const auto& tensor : tensors) hash.add(tensor);
  return hash.hex();
}

std::string entry_name(size_t i) { return fmt::format("features.{}", i); }

}  // namespace

std::string tower_digest(const Module& tower, const std::string& settings) {
  Sha256 hash;
  hash.add(version()).add(" ").add(settings);
  for (const auto& parameter : tower.parameters())
    if (parameter.value->defined()) hash.add(parameter.name).add(parameter.value->device().str()).add(*parameter.value);
  return hash.hex();
}

std::string medium_digest(const std::string& tower, const Tensor& rows, const std::string& shape) {
  return Sha256().add(tower).add(shape).add(rows).hex();
}

TowerCache::TowerCache(TowerCacheConfig config) : config_(std::move(config)) {
  std::error_code problem;
  fs::create_directories(config_.folder, problem);
  if (problem)
    throw UserError(ExitCode::usage,
                    fmt::format("`tower_cache` {} cannot be made: {}", config_.folder.string(), problem.message()),
                    "name a folder that this user may write");
  evict();
}

TowerCache::~TowerCache() {
  const int64_t all = counts_.hits + counts_.misses;
  if (all == 0) return;
  log::info("tower cache {}: {} of {} media were cached, which saved {:.1f} s of the towers{}{}", config_.folder.string(),
            counts_.hits, all, counts_.seconds_saved,
            counts_.damaged > 0 ? fmt::format("; {} damaged entries were recomputed", counts_.damaged) : "",
            counts_.evicted > 0 ? fmt::format("; {} old entries were removed", counts_.evicted) : "");
}

TensorList TowerCache::get(const std::string& key, at::Device device, const std::function<TensorList()>& compute) {
  const auto path = config_.folder / key.substr(0, 2) / (key + ".safetensors");
  if (auto found = load(path, device); !found.empty()) return ++counts_.hits, found;
  ++counts_.misses;
  const auto start = std::chrono::steady_clock::now();
  const auto tensors = compute();
  TensorList kept;
  for (const auto& tensor : tensors) kept.push_back(tensor.detach().to(at::kCPU).contiguous());  // synchronizes the device
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (writes_) store(path, kept, seconds);
  return tensors;
}

TensorList TowerCache::load(const fs::path& path, at::Device device) {
  std::error_code missing;
  if (!fs::is_regular_file(path, missing)) return {};
  try {
    const io::SafetensorsFile file(path);
    TensorList tensors;
    while (file.contains(entry_name(tensors.size()))) tensors.push_back(file.tensor(entry_name(tensors.size())).clone());
    const auto& metadata = file.metadata();
    if (tensors.empty() || !metadata.contains("sha256") || metadata.at("sha256") != content_digest(tensors))
      throw UserError(ExitCode::bad_checkpoint, "its checksum differs");
    for (auto& tensor : tensors) tensor = tensor.to(device);
    if (const auto seconds = metadata.find("seconds"); seconds != metadata.end())
      counts_.seconds_saved += std::strtod(seconds->second.c_str(), nullptr);
    fs::last_write_time(path, fs::file_time_type::clock::now(), missing);  // just used: evicted last
    return tensors;
  } catch (const UserError& problem) {
    // A file just removed by another process is not an error.
    if (fs::exists(path, missing) && counts_.damaged++ == 0)
      log::warning("tower cache: {} is damaged and is recomputed: {}", path.string(), problem.what());
    return {};
  }
}

void TowerCache::store(const fs::path& path, const TensorList& tensors, double seconds) {
  static std::mutex one_writer;  // temporary file, named after its process
  const std::lock_guard lock(one_writer);
  std::vector<io::TensorSource> sources;
  for (size_t i = 0; i < tensors.size(); ++i) sources.push_back(io::TensorSource::of(entry_name(i), tensors[i]));
  try {
    fs::create_directories(path.parent_path());
    io::write_safetensors(path, sources, {{"sha256", content_digest(tensors)}, {"seconds", fmt::format("{:.6f}", seconds)}});
    bytes_ += fs::file_size(path);
  } catch (const std::exception& problem) {
    writes_ = false;
    log::warning("tower cache: nothing more is written: {}", problem.what());
  }
  if (bytes_ > config_.most_bytes) evict();
}

// Other processes may write and remove files of the same folder concurrently.
void TowerCache::evict() {
  struct File {
    fs::file_time_type used;
    size_t bytes;
    fs::path path;
  };
  std::vector<File> files;
  std::error_code gone;
  for (auto entry = fs::recursive_directory_iterator(config_.folder, gone); !gone && entry != fs::recursive_directory_iterator();
       entry.increment(gone)) {
    std::error_code problem;
    if (!entry->is_regular_file(problem)) continue;
    File file{entry->last_write_time(problem), entry->file_size(problem), entry->path()};
    if (!problem) files.push_back(std::move(file));
  }
  bytes_ = 0;
  for (const auto& file : files) bytes_ += file.bytes;
  if (bytes_ <= config_.most_bytes) return;
  std::ranges::sort(files, {}, &File::used);
  const size_t wanted = config_.most_bytes - config_.most_bytes / 10;  // margin, so that not every new file evicts one
  for (const auto& file : files) {
    if (bytes_ <= wanted) break;
    std::error_code problem;
    if (fs::remove(file.path, problem)) ++counts_.evicted;
    bytes_ -= file.bytes;
  }
}

}  // namespace hone::model
