#include "hone/hub/with_curl/file_transfer.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <thread>

#include "hone/base/log.h"
#include "hone/hub/with_curl/digest.h"
#include "hone/hub/with_curl/interrupt.h"

namespace hone::hub {
namespace {

constexpr int kTriesOfAFile = 3;

// The content does not match the listing. A restart may help: a proxy or a replica may have been stale.
struct Damaged {
  std::string what;
};
// The server sent the whole file instead of the range.
struct RangesRefused {};
// Another thread of this download failed and has reported the error.
struct Cancelled {};

struct ContentRange {
  uint64_t begin = 0;
  std::optional<uint64_t> total;
};

// "bytes 100-199/2000"; the total may be "*".
std::optional<ContentRange> read_content_range(std::string_view text) {
  if (!text.starts_with("bytes ")) return {};
  ContentRange range;
  const char* end = text.data() + text.size();
  auto [dash, status] = std::from_chars(text.data() + 6, end, range.begin);
  auto slash = text.find('/');
  if (status != std::errc() || dash == end || *dash != '-' || slash == text.npos) return {};
  uint64_t total = 0;
  auto [last, read] = std::from_chars(text.data() + slash + 1, end, total);
  if (read == std::errc() && last == end) range.total = total;
  return range;
}

std::optional<uint64_t> announced_length(const HttpReply& head) {
  auto text = head.header("content-length");
  uint64_t length = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), length);
  return text.empty() || status != std::errc() || end != text.data() + text.size() ? std::nullopt : std::optional(length);
}

}  // namespace

uint64_t range_size(uint64_t file_size) {
  constexpr uint64_t kSmallest = 8 << 20, kLargest = 64 << 20;
  return std::clamp(file_size / 8, kSmallest, kLargest);
}

FileTransfer::FileTransfer(const Remote& remote, const std::string& commit, const WantedFile& file, TransferProgress& tally)
    : remote_(remote),
      commit_(commit),
      file_(file),
      tally_(tally),
      part_(file.part, file.listed.size, file.listed.checksum(), range_size(file.listed.size)) {}

void FileTransfer::run(Http& http, size_t connections) {
  std::string trouble;
  for (int attempt = 0; attempt < kTriesOfAFile; ++attempt) {
    try {
      fetch_all(http, connections);
      if (!has_checksum(part_.path(), file_.listed))
        throw Damaged{fmt::format("its checksum is not {}, which the hub lists", file_.listed.checksum())};
      return part_.finish(file_.target);
    } catch (const RangesRefused&) {
      trouble = "the server does not resume the download";
      start_over(true);
    } catch (const Damaged& damaged) {
      trouble = damaged.what;
      log::warning("{}: {}; fetching it again", file_.listed.path, trouble);
      start_over(false);
    } catch (const Cancelled&) {
      return;
    }
  }
  part_.discard();
  throw UserError(ExitCode::bad_data, fmt::format("{}: {}: {}", remote_.repo().id, file_.listed.path, trouble),
                  "the file is damaged on the hub, or a proxy on the way changes it; nothing of it was kept");
}

void FileTransfer::start_over(bool one_piece) {
  tally_.add(-static_cast<int64_t>(part_.done()));
  part_.restart(one_piece);
  next_ = 0;
  failed_ = false;
}

ByteRange* FileTransfer::next_range() {
  for (size_t i; (i = next_++) < part_.ranges().size();)
    if (!part_.ranges()[i].complete()) return &part_.ranges()[i];
  return nullptr;
}

// The first range is requested alone; the others follow once the server is known to support ranges.
void FileTransfer::fetch_all(Http& http, size_t connections) {
  ByteRange* first = next_range();
  if (!first) return;
  std::exception_ptr trouble;
  std::mutex mutex;
  std::vector<std::jthread> helpers;
  auto work = [&](Http* given, ByteRange* piece, const std::function<void()>& ranges_confirmed) {
    try {
      std::optional<Http> own;
      Http& connection = given ? *given : own.emplace();
      for (; piece; piece = next_range()) fetch_range(connection, *piece, ranges_confirmed);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!trouble) trouble = std::current_exception();
      failed_ = true;
    }
  };
  auto others = std::min(connections, part_.ranges().size()) - 1;
  auto help = [&] { work(nullptr, next_range(), {}); };
  work(&http, first, [&] {
    while (helpers.size() < others) helpers.emplace_back(help);
  });
  helpers.clear();  // joins
  if (trouble) std::rethrow_exception(trouble);
}

void FileTransfer::fetch_range(Http& http, ByteRange& piece, const std::function<void()>& ranges_confirmed) {
  uint64_t before = piece.done;
  with_retries(
      file_.listed.path,
      [&] {
        if (!piece.complete()) receive(http, piece, ranges_confirmed);
      },
      [&] { return std::exchange(before, piece.done) != piece.done; });
}

void FileTransfer::receive(Http& http, ByteRange& piece, const std::function<void()>& ranges_confirmed) {
  auto request = remote_.request_for(file_.listed.path, commit_);
  bool whole = piece.begin + piece.done == 0 && piece.end == part_.size();
  if (!whole) {
    request.headers.push_back(fmt::format("Range: bytes={}-{}", piece.begin + piece.done, piece.end - 1));
    auto validator = part_.validator();
    if (!validator.empty() && !validator.starts_with("W/")) request.headers.push_back("If-Range: " + validator);
  }
  try {
    http.fetch(request, {.begin =
                             [&](const HttpReply& head) {
                               check_head(head, piece, !whole);
                               if (!whole && ranges_confirmed) ranges_confirmed();
                             },
                         .write = [&](std::span<const char> bytes) { write(piece, bytes); }});
  } catch (const HttpFailure& failure) {
    if (failure.status == 416) throw RangesRefused{};
    throw;
  }
  if (piece.complete()) return;
  HttpFailure cut(fmt::format("the response ended after {} of {} bytes", piece.done.load(), piece.end - piece.begin));
  cut.worth_retrying = true;
  throw cut;
}

void FileTransfer::check_head(const HttpReply& head, const ByteRange& piece, bool asked_for_range) {
  if (asked_for_range && head.status != 206) throw RangesRefused{};
  auto total = announced_length(head);
  if (head.status == 206) {
    auto range = read_content_range(head.header("content-range"));
    if (!range || range->begin != piece.begin + piece.done) throw RangesRefused{};
    total = range->total;
  }
  if (total && *total != part_.size())
    throw Damaged{fmt::format("the server has {} bytes of it, the hub lists {}", *total, part_.size())};
  auto etag = head.header("etag");
  if (auto known = part_.validator(); !known.empty() && !etag.empty() && known != etag)
    throw Damaged{"it changed on the server while it was fetched"};
  if (!etag.empty()) part_.set_validator(etag);
}

void FileTransfer::write(ByteRange& piece, std::span<const char> bytes) {
  throw_if_interrupted();
  if (failed_ || tally_.stop) throw Cancelled{};
  if (bytes.size() > piece.end - piece.begin - piece.done) throw Damaged{"the server sends more of it than the hub lists"};
  part_.write(piece, bytes);
  tally_.add(static_cast<int64_t>(bytes.size()));
}

}  // namespace hone::hub
