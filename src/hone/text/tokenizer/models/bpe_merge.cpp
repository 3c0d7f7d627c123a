#include <algorithm>
#include <bit>
#include <queue>
#include <unordered_map>

#include "hone/text/tokenizer/models/bpe.h"

namespace hone::text::tokenizer {
namespace {

// Up to this many symbols, a linear scan of all ranks is fastest.
constexpr size_t kScanLimit = 96;

void merge_by_scan(const MergeTable& table, std::vector<TokenId>& symbols) {
  Merge merges[kScanLimit];
  size_t count = symbols.size();
  for (size_t i = 0; i + 1 < count; ++i) merges[i] = table.find(symbols[i], symbols[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i)
      if (merges[i].rank < merges[best].rank) best = i;
    if (merges[best].rank == Merge::kNone) break;
    symbols[best] = merges[best].result;
    for (size_t i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      merges[i] = merges[i + 1];
    }
    --count;
    if (best > 0) merges[best - 1] = table.find(symbols[best - 1], symbols[best]);
    if (best + 1 < count) merges[best] = table.find(symbols[best], symbols[best + 1]);
  }
  symbols.resize(count);
}

// A long piece: positions are kept in one bucket per rank, so that a run of a million equal letters takes a million steps.
class BucketMerger {
 public:
  BucketMerger(const MergeTable& table, std::vector<TokenId>& symbols)
      : table_(table), symbols_(symbols), links_(symbols.size()) {
    auto count = static_cast<int32_t>(symbols.size());
    for (int32_t i = 0; i < count; ++i) links_[at(i)] = {i - 1, i + 1 < count ? i + 1 : -1};
    for (int32_t i = 0; i + 1 < count; ++i) offer(i, i + 1);
  }

  void run() {
    while (!ranks_.empty()) {
      uint32_t rank = ranks_.top();
      ranks_.pop();
      auto node = buckets_.extract(rank);
      auto& positions = node.mapped();
      if (!std::is_sorted(positions.begin(), positions.end())) std::sort(positions.begin(), positions.end());
      lowest_offer_ = Merge::kNone;
      for (size_t i = 0; i < positions.size(); ++i) {
        merge_at(positions[i], rank);
        if (lowest_offer_ >= rank) continue;
        // A merge enabled a pair of lower rank: it comes first, and the rest of this bucket waits.
        for (size_t rest = i + 1; rest < positions.size(); ++rest) put(rank, positions[rest]);
        break;
      }
    }
    size_t written = 0;
    for (int32_t i = 0; i != -1; i = links_[at(i)].next) symbols_[written++] = symbols_[at(i)];
    symbols_.resize(written);
  }

 private:
  struct Link {
    int32_t previous, next;
  };
  static constexpr TokenId kGone = -1;
  static size_t at(int32_t i) { return static_cast<size_t>(i); }

  void merge_at(int32_t left, uint32_t rank) {
    if (symbols_[at(left)] == kGone || links_[at(left)].next < 0) return;
    int32_t right = links_[at(left)].next;
    auto merge = table_.find(symbols_[at(left)], symbols_[at(right)]);
    if (merge.rank != rank) return;  // the pair queued here no longer exists
    symbols_[at(left)] = merge.result;
    symbols_[at(right)] = kGone;
    int32_t after = links_[at(right)].next, before = links_[at(left)].previous;
    links_[at(left)].next = after;
    if (after >= 0) {
      links_[at(after)].previous = left;
      offer(left, after);
    }
    if (before >= 0) offer(before, left);
  }

  void offer(int32_t left, int32_t right) {
    auto merge = table_.find(symbols_[at(left)], symbols_[at(right)]);
    if (merge.rank == Merge::kNone) return;
    lowest_offer_ = std::min(lowest_offer_, merge.rank);
    put(merge.rank, left);
  }

  void put(uint32_t rank, int32_t position) {
    auto [bucket, fresh] = buckets_.try_emplace(rank);
    if (fresh) ranks_.push(rank);
    bucket->second.push_back(position);
  }

  const MergeTable& table_;
  std::vector<TokenId>& symbols_;
  std::vector<Link> links_;
  std::unordered_map<uint32_t, std::vector<int32_t>> buckets_;
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ranks_;
  uint32_t lowest_offer_ = Merge::kNone;
};

}  // namespace

void MergeTable::reserve(size_t merges) {
  slots_.assign(std::bit_ceil(merges * 3 / 2 + 16), Slot{});  // small tables have fewer cache misses
  mask_ = slots_.size() - 1;
}

void MergeTable::add(TokenId left, TokenId right, Merge merge) {
  if ((count_ + 1) * 3 / 2 > slots_.size()) {
    auto old = std::move(slots_);
    reserve(std::max<size_t>(64, old.size()));
    count_ = 0;
    for (auto& slot : old)
      if (slot.key != kEmpty) add(static_cast<TokenId>(slot.key >> 32), static_cast<TokenId>(slot.key & UINT32_MAX), slot.merge);
  }
  uint64_t key = key_of(left, right);
  size_t i = hash_of(key) & mask_;
  while (slots_[i].key != kEmpty && slots_[i].key != key) i = (i + 1) & mask_;
  if (slots_[i].key == kEmpty) ++count_;
  slots_[i] = {key, merge};
}

void merge_symbols(const MergeTable& table, std::vector<TokenId>& symbols) {
  if (symbols.size() < 2) return;
  if (symbols.size() <= kScanLimit)
    merge_by_scan(table, symbols);
  else
    BucketMerger(table, symbols).run();
}

}  // namespace hone::text::tokenizer
