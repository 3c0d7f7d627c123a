#include "hone/model/model_overrides.h"

#include <cmath>

#include "hone/model/decoder.h"

namespace hone::model {
namespace {

// Rows with a description are initialized from the embedding, whichever matrix they belong to, as in LLaMA-Factory.
Tensor grown(const Tensor& old, const Tensor& embedding, const EmbeddingResize& growth, at::Generator& generator) {
  at::NoGradGuard no_grad;
  int64_t before = old.size(0), width = old.size(1);
  auto values = old.to(at::kCPU, at::kFloat);
  auto added = values.mean(0, /*keepdim=*/true).repeat({growth.rows - before, 1});
  double size = 1 / std::sqrt(static_cast<double>(width));
  auto noise = at::empty(added.sizes(), added.options()).normal_(0, size, generator);
  if (growth.noise) added += noise;
  for (const auto& [row, words] : growth.described) {
    bool known = !words.empty() && std::ranges::all_of(words, [&](int64_t word) { return word < before; });
    if (row < before || row >= growth.rows || !known) continue;
    auto start = embedding.index_select(0, at::tensor(words).to(embedding.device())).to(at::kCPU, at::kFloat).mean(0);
    added[row - before].copy_(growth.noise_on_described ? start + noise[row - before] : start);
  }
  return at::cat({old, added.to(old.device(), old.scalar_type())});
}

}  // namespace

void resize_token_embeddings(Decoder& decoder, const EmbeddingResize& growth) {
  if (growth.rows <= decoder.config.vocab_size) return;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(growth.seed);
  const auto embedding = decoder.embedding.weight;
  decoder.embedding.weight = grown(embedding, embedding, growth, generator);
  if (!decoder.config.num_labels)
    decoder.head.weight =
        decoder.config.tie_word_embeddings ? decoder.embedding.weight : grown(decoder.head.weight, embedding, growth, generator);
  decoder.config.vocab_size = growth.rows;
  decoder.config.source["vocab_size"] = growth.rows;
}

}  // namespace hone::model
