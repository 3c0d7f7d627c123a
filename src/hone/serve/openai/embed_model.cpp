#include "hone/serve/openai/embed_model.h"

#include <numeric>

#include "hone/base/file.h"
#include "hone/device/tensor.h"
#include "hone/model/causal_lm.h"
#include "hone/model/inference/paged_input.h"
#include "hone/model/inference/paged_kv_cache.h"

namespace hone::serve {
namespace {

constexpr int64_t kPartTokens = 512;  // texts that the engine's thread computes between two steps
constexpr int64_t kPartBlock = 16;

// A text's hidden states, chunk by chunk: its own cache holds the previous chunks, and adapters apply as in the engine.
class DecoderPass : public ChunkedEmbedding {
 public:
  DecoderPass(model::CausalLM& model, std::vector<text::TokenId> ids, Pooling pooling, std::string adapter)
      : model_(model),
        ids_(std::move(ids)),
        pooling_(pooling),
        adapter_(std::move(adapter)),
        blocks_((ids_.size() + kPartBlock - 1) / kPartBlock),
        cache_(model.config(), static_cast<int64_t>(blocks_.size()), kPartBlock, model.dtype(),
               model::block_devices(model.decoder())) {
    std::iota(blocks_.begin(), blocks_.end(), 0);
  }

  bool step() override {
    at::InferenceMode inference;
    auto count = std::min(kPartTokens, size() - done_);
    take(hidden(count), count);
    done_ += count;
    if (done_ < size()) return true;
    finish();
    return false;
  }

  std::vector<float> vector() const override { return vector_; }

 private:
  int64_t size() const { return static_cast<int64_t>(ids_.size()); }

  Tensor hidden(int64_t count) {
    const model::PagedChunk part{{ids_.data() + done_, static_cast<size_t>(count)}, done_, blocks_, adapter_};
    auto [input, metadata, slots] = model::paged_input({&part, 1}, kPartBlock);
    cache_.set_metadata(ops::moved(std::move(metadata), model_.device()), slots);
    return model_.hidden_states(input.to(model_.device()), &cache_).to(at::kFloat);
  }

  void take(const Tensor& hidden_th, int64_t count) {
    switch (pooling_) {
      case Pooling::last:
        pooled_h_ = hidden_th.select(0, count - 1);
        return;
      case Pooling::first:
        if (done_ == 0) pooled_h_ = hidden_th.select(0, 0).clone();
        return;
      case Pooling::max:
        pooled_h_ = done_ == 0 ? hidden_th.amax(0) : at::maximum(pooled_h_, hidden_th.amax(0));
        return;
      case Pooling::mean:
      case Pooling::mean_sqrt_len:
        return add(hidden_th.sum(0));
      case Pooling::weighted_mean: {
        auto weights_t = at::arange(done_ + 1, done_ + count + 1, hidden_th.options());
        return add((hidden_th * weights_t.unsqueeze(1)).sum(0));
      }
    }
  }

  void add(const Tensor& sum_h) { pooled_h_ = done_ == 0 ? sum_h : pooled_h_ + sum_h; }

  void finish() {
    auto tokens = static_cast<double>(size());
    double divisor = pooling_ == Pooling::mean            ? tokens
                     : pooling_ == Pooling::mean_sqrt_len ? std::sqrt(tokens)
                     : pooling_ == Pooling::weighted_mean ? tokens * (tokens + 1) / 2
                                                          : 1;
    auto result_h = (pooled_h_ / divisor).cpu().contiguous();
    vector_.assign(result_h.const_data_ptr<float>(), result_h.const_data_ptr<float>() + result_h.numel());
  }

  model::CausalLM& model_;
  const std::vector<text::TokenId> ids_;
  const Pooling pooling_;
  const std::string adapter_;
  std::vector<int32_t> blocks_;
  model::PagedKvCache cache_;
  Tensor pooled_h_;
  std::vector<float> vector_;
  int64_t done_ = 0;
};

struct PoolingName {
  std::string_view name, flag;
  Pooling pooling;
};
constexpr PoolingName kPoolings[] = {
    {"last", "pooling_mode_lasttoken", Pooling::last},
    {"cls", "pooling_mode_cls_token", Pooling::first},
    {"mean", "pooling_mode_mean_tokens", Pooling::mean},
    {"max", "pooling_mode_max_tokens", Pooling::max},
    {"weightedmean", "pooling_mode_weightedmean_tokens", Pooling::weighted_mean},
    {"mean_sqrt_len", "pooling_mode_mean_sqrt_len_tokens", Pooling::mean_sqrt_len},
};

[[noreturn]] void unknown_pooling(const fs::path& file) {
  throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: not one pooling that is known here", file.string()),
                  "expected one of pooling_mode_lasttoken, _cls_token, _mean_tokens, _max_tokens, _weightedmean_tokens, "
                  "_mean_sqrt_len_tokens");
}

Pooling read_pooling(const fs::path& file) {
  auto config = parse_json(read_file(file)).or_throw(ExitCode::bad_checkpoint, file.string());
  std::vector<Pooling> asked;
  if (auto name = config.value("pooling_mode", Json()); name.is_string()) {  // the newer format
    auto known = pooling_named(name == "lasttoken"              ? "last"
                               : name == "mean_sqrt_len_tokens" ? "mean_sqrt_len"
                                                                : name.get<std::string>());
    if (!known) unknown_pooling(file);
    return *known;
  }
  for (const auto& row : kPoolings)
    if (config.value(std::string(row.flag), Json()) == true) asked.push_back(row.pooling);
  if (asked.size() != 1) unknown_pooling(file);
  return asked[0];
}

}  // namespace

Embed make_embed(model::CausalLM& model) {
  return [&model](std::vector<text::TokenId> ids, Pooling pooling, std::string adapter) -> std::unique_ptr<ChunkedEmbedding> {
    return std::make_unique<DecoderPass>(model, std::move(ids), pooling, std::move(adapter));
  };
}

std::optional<Pooling> pooling_named(std::string_view name) {
  for (const auto& row : kPoolings)
    if (row.name == name) return row.pooling;
  return std::nullopt;
}

PoolingConfig read_embedding_style(const fs::path& folder) {
  auto file = folder / "modules.json";
  if (!fs::exists(file)) return {};
  auto modules = parse_json(read_file(file)).or_throw(ExitCode::bad_checkpoint, file.string());
  PoolingConfig style{.unit = false};
  for (const auto& module : modules) {
    auto type = module.is_object() ? module.value("type", Json()) : Json();
    auto path = module.is_object() ? module.value("path", Json()) : Json();
    if (!type.is_string() || !path.is_string())
      throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: expected a list of modules with type and path", file.string()));
    auto kind = type.get<std::string>();
    if (kind.ends_with(".Pooling")) {
      auto config = folder / path.get<std::string>() / "config.json";
      if (!is_inside(folder, config)) unknown_pooling(config);
      style.pooling = read_pooling(config);
    }
    if (kind.ends_with(".Normalize")) style.unit = true;
  }
  return style;
}

}  // namespace hone::serve
