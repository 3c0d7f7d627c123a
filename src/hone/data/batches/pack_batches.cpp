// Turns the samples of one window into packs and batches.
#include <algorithm>

#include "hone/data/batches/batch_sampler.h"
#include "hone/data/encode/truncate.h"

namespace hone::data {
namespace {

// Concatenates texts and splits them into blocks of `capacity`; drops the rest, as LLaMA-Factory does.
std::vector<SamplePack> chunk_into_blocks(const std::vector<SamplePack>& samples, int64_t capacity, const Encoder& encoder) {
  std::vector<SamplePack> blocks;
  Sample block;
  for (const auto& pack : samples)
    for (const auto& sample : pack)
      for (size_t i = 0; i < sample.ids.size(); ++i) {
        if (block.ids.empty()) block.row = sample.row, block.origin = sample.origin;
        block.ids.push_back(sample.ids[i]);
        block.labels.push_back(sample.labels[i]);
        if (static_cast<int64_t>(block.ids.size()) == capacity) blocks.push_back({std::exchange(block, {})});
      }
  const auto& special = encoder.tokenizer().special();
  if (special.add_bos && special.bos)
    for (auto& pack : blocks) pack[0].ids[0] = pack[0].labels[0] = *special.bos;
  return blocks;
}

size_t tokens_of(const SamplePack& pack) {
  size_t total = 0;
  for (const auto& sample : pack) total += sample.ids.size();
  return total;
}

// Samples that belong together, such as the two responses of a pair, stay in one pack.
std::vector<SamplePack> pack_samples(std::vector<SamplePack> rows, Packing packing, int64_t capacity) {
  std::vector<int64_t> lengths;
  for (const auto& row : rows) lengths.push_back(static_cast<int64_t>(tokens_of(row)));
  std::vector<SamplePack> packs;
  for (const auto& indices : pack(packing, lengths, capacity)) {
    auto& target = packs.emplace_back();
    for (size_t index : indices) std::move(rows[index].begin(), rows[index].end(), std::back_inserter(target));
  }
  return packs;
}

}  // namespace

PackMask joint_of(Packing packing) {
  return packing == Packing::joined   ? PackMask::cross_sample
         : packing == Packing::blocks ? PackMask::one_sequence
                                      : PackMask::separate;
}

int64_t pack_capacity(const LoaderConfig& config, const Encoder& encoder) {
  if (config.packing == Packing::none) return 0;
  int64_t capacity = config.packing_length > 0 ? config.packing_length : encoder.config().max_length;
  if (capacity <= 0) throw UserError(ExitCode::usage, "packing needs a length", "give `max_length` or `packing_length`");
  return capacity;
}

Batch make_batch(std::span<const SamplePack> packs, const LoaderConfig& config) {
  const auto sorted = config.feedback ? kl_pairs_last(packs) : std::vector<SamplePack>();
  const auto ordered = config.feedback ? std::span<const SamplePack>(sorted) : packs;
  auto batch = collate(ordered, config.feedback ? PackMask::separate : joint_of(config.packing));
  if (config.payload) {
    std::vector<const Sample*> sequences;
    for (const auto& pack : ordered)
      for (const auto& sample : pack) sequences.push_back(&sample);
    batch.payload = config.payload(sequences);
  }
  if (config.feedback) {
    auto is_row = [](const SamplePack& pack) { return !pack.front().sequence_labels.empty(); };  // KL pairs are not
    batch.sample_count = std::ranges::count_if(ordered, is_row);
    batch.rows.resize(static_cast<size_t>(batch.sample_count));
  }
  if (config.pairs) {  // two responses are one row
    batch.sample_count /= 2;
    batch.rows.erase(std::unique(batch.rows.begin(), batch.rows.end()), batch.rows.end());
  }
  batch.pinned = config.pin_memory;
  return batch;
}

std::vector<SamplePack> arrange_packs(std::vector<SamplePack> samples, const LoaderConfig& config, int64_t capacity,
                                      const Encoder& encoder) {
  if (config.packing == Packing::blocks) return chunk_into_blocks(samples, capacity, encoder);
  return config.packing == Packing::none ? std::move(samples) : pack_samples(std::move(samples), config.packing, capacity);
}

int64_t count_batches(size_t packs, const LoaderConfig& config) {
  const auto count = static_cast<int64_t>(packs);
  return (count + (config.drop_last ? 0 : config.batch_size - 1)) / config.batch_size;
}

std::vector<LazyBatch> pack_batches(std::vector<SamplePack> samples, const LoaderConfig& config, int64_t capacity, Rng* shuffle,
                                    const Encoder& encoder) {
  samples = arrange_packs(std::move(samples), config, capacity, encoder);
  if (config.group_by_length)
    std::stable_sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) { return tokens_of(a) > tokens_of(b); });
  else if (shuffle)
    shuffle->shuffle(samples);
  std::vector<LazyBatch> batches;
  const auto step = static_cast<ptrdiff_t>(config.batch_size);
  const auto count = static_cast<size_t>(count_batches(samples.size(), config));
  for (auto from = samples.begin(); batches.size() < count;) {
    const auto to = from + std::min<ptrdiff_t>(step, samples.end() - from);
    batches.push_back(make_unless_media({std::move_iterator(from), std::move_iterator(to)}, config));
    from = to;
  }
  if (config.group_by_length && shuffle) shuffle->shuffle(batches);
  return batches;
}

}  // namespace hone::data
