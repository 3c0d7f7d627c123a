#include "hone/data/encode/kto_rows.h"

#include <algorithm>
#include <iterator>

#include "hone/base/error.h"
#include "hone/data/row_report.h"

namespace hone::data {

int64_t kl_partner(int64_t index, int64_t total, int64_t block) {
  HONE_CHECK(block > 0 && index < total);
  return index % block == 0 ? std::min(index + block, total) - 1 : index - 1;
}

Result<SamplePack> encode_kto_row(const Encoder& encoder, const Conversation& row, const Conversation* partner) {
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
