// The loader: same batches whatever the threads, exact resume from any batch, every row used or counted.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>

#include "byte_tokenizer.h"
#include "hone/data/batches/make_loader.h"

namespace hone::data {
namespace {

// Rows "0", "1", …; every row in `bad` is broken. Content is repeated so that lengths differ.
struct Numbers : ConversationSource {
  int64_t count;
  std::set<int64_t> bad;
  explicit Numbers(int64_t count, std::set<int64_t> bad = {}) : count(count), bad(std::move(bad)) {}
  int64_t size() const override { return count; }
  Result<Conversation> at(int64_t index) const override {
    auto origin = RowOrigin{.file = "n.jsonl", .line = index + 1};
    if (bad.contains(index)) return row_error(RowProblem::json, origin.str(), "broken");
    auto answer = std::string(static_cast<size_t>(1 + index * 7 % 23), 'a') + std::to_string(index);
    return Conversation{.messages = {{.role = "user", .content = "q"}, {.role = "assistant", .content = answer}},
                        .origin = origin};
  }
};

struct NumberStream : ConversationStream {
  std::shared_ptr<const Numbers> numbers;
  int64_t at = 0;
  explicit NumberStream(std::shared_ptr<const Numbers> numbers) : numbers(std::move(numbers)) {}
  std::optional<Result<Conversation>> next() override {
    if (at == numbers->size()) return std::nullopt;
    return numbers->at(at++);
  }
  Json position() const override { return at; }
  void seek(const Json& position) override { at = position.get<int64_t>(); }
};

enum class SwiftRowKind { exact, lazy, stream };

struct Case {
  const char* name;
  SwiftRowKind kind;
  LoaderConfig config;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

struct Fixture {
  std::shared_ptr<RowReport> report = std::make_shared<RowReport>();
  std::unique_ptr<Loader> loader;
  Fixture(const Case& c, int64_t rows, std::set<int64_t> bad = {}) {
    auto config = c.config;
    if (c.kind == SwiftRowKind::lazy) config.index_limit_bytes = -1;
    EncodeConfig encode{.template_name = "qwen3_nothinking", .max_length = 64};
    if (config.packing == Packing::blocks)
      encode = {.dialect = Dialect::factory,
                .template_name = "default",
                .max_length = 64,
                .pretraining = true,
                .concatenate_text = true};
    auto encoder = Encoder::make(encode, chatml_tokenizer(), {});
    auto numbers = std::make_shared<Numbers>(rows, std::move(bad));
    if (c.kind == SwiftRowKind::stream)
      loader = make_loader(std::make_unique<NumberStream>(numbers), encoder, config, report);
    else
      loader = make_loader(numbers, encoder, config, report);
  }
};

std::string text_of(const Batch& batch) {
  std::string text;
  for (int64_t i = 0; i < batch.tokens_t.numel(); ++i)
    text += fmt::format("{}:{}:{} ", batch.tokens_t[i].item<int64_t>(), batch.positions_t[i].item<int64_t>(),
                        batch.targets_t[i].item<int64_t>());
  for (auto offset : batch.segments.offsets) text += fmt::format("|{}", offset);
  return text;
}

std::vector<std::string> take(Loader& loader, int count) {
  std::vector<std::string> batches;
  for (int i = 0; i < count; ++i) batches.push_back(text_of(loader.next()));
  return batches;
}

const Case kCases[] = {
    {"exact", SwiftRowKind::exact, {.batch_size = 3}},
    {"exact_in_order", SwiftRowKind::exact, {.batch_size = 2, .shuffle = false}},
    {"exact_packed", SwiftRowKind::exact, {.batch_size = 1, .packing = Packing::best_fit}},
    {"exact_joined", SwiftRowKind::exact, {.batch_size = 1, .packing = Packing::joined}},
    {"exact_blocks", SwiftRowKind::exact, {.batch_size = 2, .packing = Packing::blocks}},
    {"exact_grouped", SwiftRowKind::exact, {.batch_size = 2, .group_by_length = true}},
    {"lazy", SwiftRowKind::lazy, {.batch_size = 3}},
    {"lazy_packed", SwiftRowKind::lazy, {.batch_size = 1, .packing = Packing::best_fit}},
    {"lazy_blocks", SwiftRowKind::lazy, {.batch_size = 1, .packing = Packing::blocks}},
    {"stream", SwiftRowKind::stream, {.batch_size = 3, .shuffle_buffer = 10}},
    {"stream_packed", SwiftRowKind::stream, {.batch_size = 1, .packing = Packing::next_fit, .shuffle_buffer = 10}},
};

class EveryLoader : public testing::TestWithParam<Case> {};

TEST_P(EveryLoader, SameBatchesWhateverTheThreads) {
  auto one = GetParam(), many = GetParam();
  one.config.threads = 1;
  many.config.threads = 5;
  Fixture a(one, 50, {3, 7}), b(many, 50, {3, 7});
  EXPECT_EQ(take(*a.loader, 40), take(*b.loader, 40));
}

TEST_P(EveryLoader, ResumesFromAnyBatch) {
  Fixture reference(GetParam(), 40, {5});
  constexpr int kSteps = 30;
  std::vector<std::string> batches;
  std::vector<Json> states = {reference.loader->state()};
  for (int i = 0; i < kSteps; ++i) {
    batches.push_back(text_of(reference.loader->next()));
    states.push_back(parse_json(reference.loader->state().dump()).value());
  }
  for (int at = 0; at < kSteps; ++at) {
    Fixture resumed(GetParam(), 40, {5});
    resumed.loader->restore(states[static_cast<size_t>(at)]);
    for (int i = at; i < std::min(at + 4, kSteps); ++i)
      ASSERT_EQ(text_of(resumed.loader->next()), batches[static_cast<size_t>(i)]) << "from " << at << ", batch " << i;
  }
}

TEST_P(EveryLoader, EveryRowIsUsedOrCounted) {
  constexpr int64_t kRows = 60;
  Fixture setup(GetParam(), kRows, {0, 59});
  std::set<int64_t> used;
  while (setup.loader->epoch() < 1 && used.size() < 1000) {
    auto batch = setup.loader->next();
    if (setup.loader->epoch() > 1) break;
    used.insert(batch.rows.begin(), batch.rows.end());
  }
  EXPECT_EQ(setup.report->bad(), 2);
  if (GetParam().config.packing != Packing::blocks) {
    EXPECT_EQ(used.size(), static_cast<size_t>(kRows) - 2);
  }
}
INSTANTIATE_TEST_SUITE_P(Loader, EveryLoader, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

// Rows with an image each, whose source is never found; counts the attempts to open one.
struct PicturedNumbers : Numbers {
  std::shared_ptr<PictureConfig> config = std::make_shared<PictureConfig>();
  explicit PicturedNumbers(int64_t count, std::atomic<int>& opened) : Numbers(count) {
    config->sources.fetch = [&opened](const std::string&) -> Result<fs::path> { return ++opened, error("absent"); };
  }
  Result<Conversation> at(int64_t index) const override {
    Picture picture{.source = fmt::format("http://{}", index),
                    .geometry = *media::image_geometry({28, 28}, config->processor),
                    .config = config};
    const auto tokens = static_cast<size_t>(picture.geometry.tokens);
    Sample sample{.ids = std::vector<text::TokenId>(tokens + 2, 1), .labels = std::vector<text::TokenId>(tokens + 2, 1)};
    sample.pictures.push_back(std::move(picture));
    Conversation row;
    row.encoded = std::make_shared<const std::vector<Sample>>(std::vector{std::move(sample)});
    return row;
  }
};

// None for a first look at the rows, and never those of a whole window or block, which may be gigabytes.
TEST_P(EveryLoader, MediaAreDecodedShortlyBeforeTheirBatch) {
  constexpr int kRows = 400, kRowsOfABatch = 10;
  auto config = GetParam().config;
  if (config.packing == Packing::blocks) return;
  if (GetParam().kind == SwiftRowKind::lazy) config.index_limit_bytes = -1;
  config.shuffle_buffer = kRows;
  config.threads = 1;
  std::atomic<int> opened = 0;
  auto encoder = Encoder::make({.template_name = "qwen3_nothinking", .max_length = 64}, chatml_tokenizer(), {});
  auto rows = std::make_shared<PicturedNumbers>(kRows, opened);
  auto report = std::make_shared<RowReport>();
  auto loader = GetParam().kind == SwiftRowKind::stream
                    ? make_loader(std::make_unique<NumberStream>(rows), encoder, config, report)
                    : make_loader(rows, encoder, config, report);
  EXPECT_EQ(opened, 0);
  const auto batch = loader->next();
  EXPECT_GE(opened, std::ssize(batch.rows));
  EXPECT_LE(opened, (config.prefetch + 3) * kRowsOfABatch);
}

TEST(Loader, RanksShareAnEpoch) {
  std::multiset<int64_t> rows;
  for (int rank = 0; rank < 3; ++rank) {
    Fixture setup({"", SwiftRowKind::exact, {.batch_size = 2, .rank = rank, .world_size = 3}}, 30);
    EXPECT_EQ(setup.loader->batches_per_epoch(), 5);
    for (int i = 0; i < 5; ++i)
      for (auto row : setup.loader->next().rows) rows.insert(row);
  }
  EXPECT_EQ(rows.size(), 30u);
  EXPECT_EQ(std::set<int64_t>(rows.begin(), rows.end()).size(), 30u);
}

TEST(Loader, EpochsDiffer) {
  Fixture setup({"", SwiftRowKind::exact, {.batch_size = 30}}, 30);
  auto first = text_of(setup.loader->next()), second = text_of(setup.loader->next());
  EXPECT_NE(first, second);
}

TEST(Loader, BatchesShiftTargetsInsideASample) {
  Fixture setup({"", SwiftRowKind::exact, {.batch_size = 2, .shuffle = false}}, 2);
  auto batch = setup.loader->next();
  EXPECT_EQ(batch.segments.count(), 2);
  EXPECT_EQ(batch.positions_t[batch.segments.offsets[1]].item<int64_t>(), 0);
  EXPECT_EQ(batch.targets_t[batch.segments.offsets[1] - 1].item<int64_t>(), kIgnore);
  // Row 0: 20 tokens of prompt, then "a0", the end of the turn and a newline.
  EXPECT_EQ(batch.targets_t[19].item<int64_t>(), 'a');
  EXPECT_EQ(batch.target_count, 4 + (8 + 1 + 2));
  EXPECT_FALSE(batch.weights_t.defined());
}

TEST(Loader, NothingUsableIsAnError) {
  EXPECT_THROW(Fixture({"", SwiftRowKind::exact, {}}, 2, {0, 1}), UserError);
  Fixture lazy({"", SwiftRowKind::lazy, {}}, 2, {0, 1});
  EXPECT_THROW(lazy.loader->next(), UserError);
}

TEST(Loader, APositionBeyondTheDataIsAnError) {
  Fixture fixture({"", SwiftRowKind::exact, {.batch_size = 2}}, 6);  // three batches an epoch
  for (const char* state :
       {R"({"epoch":0,"unit":3,"offset":0})", R"({"epoch":0,"unit":-1,"offset":0})", R"({"epoch":0,"unit":1,"offset":2})"})
    EXPECT_THROW(fixture.loader->restore(Json::parse(state)), UserError) << state;
}

TEST(Loader, StrictStopsAtTheFirstBadRow) {
  auto encoder = Encoder::make({.template_name = "qwen"}, chatml_tokenizer(), {});
  EXPECT_THROW(make_loader(std::make_shared<Numbers>(5, std::set<int64_t>{2}), encoder, {}, std::make_shared<RowReport>(true)),
               UserError);
}

}  // namespace
}  // namespace hone::data
