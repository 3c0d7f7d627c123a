#include "hone/data/batches/row_encoder.h"

#include "hone/data/batches/permutation.h"
#include "hone/data/row_report.h"

namespace hone::data {
namespace {

// The target margin of the chosen response, if the row has one (ms-swift's `margin` for reward models).
Json margin_of(const Conversation& conversation) {
  return conversation.extra.is_object() ? conversation.extra.value("margin", Json()) : Json();
}

}  // namespace

Result<SamplePack> encode_conversation(const Encoder& encoder, const Conversation& conversation, const LoaderConfig& config,
                                       int64_t row) {
  if (config.check) config.check(conversation);
  SamplePack samples;
  if (conversation.encoded) {
    samples = *conversation.encoded;
  } else if (config.groups) {
    auto group = encode_pooling_row(encoder, conversation, *config.groups);
    if (!group) return Error{group.error()};
    samples = std::move(*group);
  } else if (config.feedback) {
    auto labelled = encode_kto_row(encoder, conversation, nullptr);
    if (!labelled) return Error{labelled.error()};
    samples = std::move(*labelled);
  } else if (config.pairs) {
    auto pair = encoder.encode_pair(conversation);
    if (!pair) return Error{pair.error()};
    samples = {std::move(pair->first), std::move(pair->second)};
    const auto margin = margin_of(conversation);
    if (config.margins && !margin.is_null() && !margin.is_number())
      return row_error(RowProblem::type, conversation.origin.str(),
                       fmt::format("\"margin\" is {}; expected a number", margin.dump()));
    if (margin.is_number()) samples.front().sequence_labels = {margin.get<float>()};
  } else {
    auto parts = encoder.encode_split(conversation);
    if (!parts) return Error{parts.error()};
    samples = std::move(*parts);
  }
  for (auto& sample : samples) sample.row = row;
  return samples;
}

RowEncoder::RowEncoder(std::shared_ptr<const ConversationSource> source, std::shared_ptr<const Encoder> encoder,
                       const LoaderConfig& config)
    : source_(std::move(source)), encoder_(std::move(encoder)), config_(config) {
  if (!config.feedback || !config.feedback->with_kl_pairs || config.packing == Packing::none || config.feedback->block <= 0)
    return;
  const int64_t total = source_->size();
  const Permutation order(static_cast<uint64_t>(total), config.seed, /*epoch=*/0);
  auto row_at = [&](int64_t place) {
    return config.feedback->in_file_order ? place : static_cast<int64_t>(order(static_cast<uint64_t>(place)));
  };
  partners_.resize(static_cast<size_t>(total));
  for (int64_t place = 0; place < total; ++place)
    partners_[static_cast<size_t>(row_at(place))] = row_at(kl_partner(place, total, config.feedback->block));
}

Result<SamplePack> RowEncoder::operator()(int64_t row) const {
  if (!partners_.empty()) return with_kl_pair(row, partners_[static_cast<size_t>(row)]);
  auto conversation = source_->at(row);
  if (!conversation) return Error{conversation.error()};
  return encode_conversation(*encoder_, *conversation, config_, row);
}

Result<SamplePack> RowEncoder::operator()(int64_t row, int64_t before) const {
  if (!config_.feedback || !config_.feedback->with_kl_pairs || !partners_.empty()) return (*this)(row);
  return with_kl_pair(row, config_.feedback->in_file_order ? kl_partner(row, source_->size(), config_.feedback->block) : before);
}

Result<SamplePack> RowEncoder::with_kl_pair(int64_t row, int64_t partner_row) const {
  auto own = source_->at(row);
  if (!own) return Error{own.error()};
  auto partner = source_->at(partner_row);
  auto samples = encode_kto_row(*encoder_, *own, partner ? &*partner : nullptr);
  if (!samples) return samples;
  for (auto& sample : *samples) sample.row = row;
  return samples;
}

}  // namespace hone::data
