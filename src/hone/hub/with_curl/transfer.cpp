#include "hone/hub/with_curl/transfer.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/hub/partial_file.h"
#include "hone/hub/with_curl/file_transfer.h"
#include "hone/hub/with_curl/interrupt.h"

namespace hone::hub {
namespace {

constexpr size_t kConnections = 8;

}  // namespace

uint64_t bytes_listed(const std::vector<WantedFile>& files) {
  uint64_t total = 0;
  for (const auto& file : files) total += file.listed.size;
  return total;
}

uint64_t bytes_begun(const std::vector<WantedFile>& files) {
  uint64_t begun = 0;
  for (const auto& file : files)
    if (std::filesystem::exists(file.part))
      begun += PartialFile(file.part, file.listed.size, file.listed.checksum(), range_size(file.listed.size)).done();
  return begun;
}

void transfer(const Remote& remote, const std::string& commit, std::vector<WantedFile> files) {
  // Largest files first: the many small ones at the end share the connections evenly.
  std::stable_sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.listed.size > b.listed.size; });
  auto begun = static_cast<int64_t>(bytes_begun(files));
  ProgressBar bar(remote.repo().id, static_cast<int64_t>(bytes_listed(files)), begun, ProgressBar::Unit::bytes);
  TransferProgress tally{bar, begun};
  std::atomic<size_t> next{0};
  std::exception_ptr trouble;
  std::mutex mutex;
  auto work = [&] {
    Http http;  // reused: a small file costs less than a new connection
    for (size_t i; !tally.stop && (i = next++) < files.size();) try {
        size_t left = std::min(kConnections, files.size() - i);
        FileTransfer(remote, commit, files[i], tally).run(http, std::max<size_t>(1, kConnections / left));
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!trouble) trouble = std::current_exception();
        tally.stop = true;
      }
  };
  {
    std::vector<std::jthread> workers;
    for (size_t i = 0; i < std::min(kConnections, files.size()); ++i) workers.emplace_back(work);
  }
  bar.finish();
  throw_if_interrupted();
  if (!trouble) return;
  try {
    std::rethrow_exception(trouble);
  } catch (const HttpFailure& failure) {
    throw remote.explained(failure);
  }
}

}  // namespace hone::hub
