// The transfer of one file: in ranges, resumed, retried, bounded by the listing, and verified.
#pragma once
#include <atomic>
#include <mutex>

#include "hone/base/progress.h"
#include "hone/hub/partial_file.h"
#include "hone/hub/with_curl/transfer.h"

namespace hone::hub {

// Large enough that requests cost little, small enough that a medium-sized file uses all connections.
uint64_t range_size(uint64_t file_size);

// State shared by all files of a download.
struct TransferProgress {
  ProgressBar& bar;
  std::atomic<int64_t> bytes;
  std::atomic<bool> stop{false};  // another file failed
  void add(int64_t count) { bar.update(bytes += count); }
};

class FileTransfer {
 public:
  FileTransfer(const Remote& remote, const std::string& commit, const WantedFile& file, TransferProgress& tally);
  // Uses up to `connections` at once, `http` the first of them, if the file is large and the server supports ranges.
  void run(Http& http, size_t connections);

 private:
  void fetch_all(Http& http, size_t connections);
  void fetch_range(Http& http, ByteRange& piece, const std::function<void()>& ranges_confirmed);
  void receive(Http& http, ByteRange& piece, const std::function<void()>& ranges_confirmed);
  void check_head(const HttpReply& head, const ByteRange& piece, bool asked_for_range);
  void write(ByteRange& piece, std::span<const char> bytes);
  ByteRange* next_range();
  void start_over(bool one_piece);

  const Remote& remote_;
  std::string commit_;
  const WantedFile& file_;
  TransferProgress& tally_;
  PartialFile part_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
};

}  // namespace hone::hub
