#include "hone/data/encode/kto_rows.h"

#include <algorithm>
#include <iterator>

#include "hone/base/error.h"
#include "hone/data/row_report.h"

namespace hone::data {
namespace {

// Where the last completion begins: the last labelled tokens and what follows them.
ptrdiff_t begin_of_completion(const Sample& sample) {
  auto at = static_cast<ptrdiff_t>(sample.labels.size());
  while (at > 0 && sample.labels[static_cast<size_t>(at) - 1] == kIgnore) --at;
  while (at > 0 && sample.labels[static_cast<size_t>(at) - 1] != kIgnore) --at;
  return at;
}

// Of rows that are token ids already.
SamplePack with_completion_of(const Sample& own, const Sample& partner, int64_t max_length) {
  const auto begin = begin_of_completion(own), from = begin_of_completion(partner);
  Sample other{.ids = {own.ids.begin(), own.ids.begin() + begin}, .labels = {own.labels.begin(), own.labels.begin() + begin}};
  other.ids.insert(other.ids.end(), partner.ids.begin() + from, partner.ids.end());
  other.labels.insert(other.labels.end(), partner.labels.begin() + from, partner.labels.end());
  if (max_length > 0 && static_cast<int64_t>(other.ids.size()) > max_length) return {own};
  return {own, std::move(other)};
}

}  // namespace

int64_t kl_partner(int64_t index, int64_t total, int64_t block) {
  HONE_CHECK(block > 0 && index < total);
  return index % block == 0 ? std::min(index + block, total) - 1 : index - 1;
}

Result<SamplePack> encode_kto_row(const Encoder& encoder, const Conversation& row, const Conversation* partner) {
  if (row.encoded && !row.encoded->empty()) {
    const auto& own = row.encoded->front();
    if (!partner || !partner->encoded || partner->encoded->empty()) return SamplePack{own};
    return with_completion_of(own, partner->encoded->front(), encoder.config().max_length);
  }
  if (!row.label && row.extra.is_object() && row.extra.contains("label"))
    return row_error(RowProblem::type, row.origin.str(),
                     fmt::format("\"label\" is {}; expected true for a desirable response or false for an undesirable one",
                                 row.extra["label"].dump()));
  if (!row.label)
    return row_error(RowProblem::columns, row.origin.str(),
                     "the row has no \"label\", true for a desirable response and false for an undesirable one");
  auto own = encoder.encode(row);
  if (!own) return Error{own.error()};
  own->sequence_labels = {*row.label ? 1.0F : 0.0F};
  SamplePack samples{std::move(*own)};
  if (!partner || partner->messages.empty() || row.messages.empty()) return samples;
  auto mismatched = row;
  mismatched.messages.back() = partner->messages.back();
  if (auto other = encoder.encode(mismatched)) samples.push_back(std::move(*other));
  return samples;
}

std::vector<SamplePack> kl_pairs_last(std::span<const SamplePack> packs) {
  std::vector<SamplePack> own, pairs;
  for (const auto& pack : packs)
    for (const auto& sample : pack) (sample.sequence_labels.empty() ? pairs : own).push_back({sample});
  std::ranges::move(pairs, std::back_inserter(own));
  return own;
}

}  // namespace hone::data
