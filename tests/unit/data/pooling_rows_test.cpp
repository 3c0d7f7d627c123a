// Rows that are judged as wholes: which texts they become, with which grades, and which candidates an epoch uses.
#include "hone/data/encode/pooling_rows.h"

#include <gtest/gtest.h>

#include <set>

#include "byte_tokenizer.h"
#include "hone/data/batches/make_loader.h"

namespace hone::data {
namespace {

std::shared_ptr<const Encoder> bare_encoder(int64_t max_length = 0) {
  auto config = dialect_defaults(Dialect::swift);
  config.template_name = "qwen";
  config.use_chat_template = false;
  config.max_length = max_length;
  return Encoder::make(config, chatml_tokenizer(), {"m", "qwen2", "Qwen2ForCausalLM"});
}

Conversation row_of(const std::string& text, Json extra) {
  Conversation row;
  row.messages = {{"user", text, {}, {}, nullptr}};
  row.extra = std::move(extra);
  row.origin = {.file = "rows.jsonl", .line = 1};
  return row;
}

Json answers(std::initializer_list<const char*> texts) {
  Json list = Json::array();
  for (const char* text : texts) list.push_back(Json::array({{{"role", "assistant"}, {"content", text}}}));
  return list;
}

std::string text_of(const Sample& sample) { return chatml_tokenizer()->decode(sample.ids, false); }

TEST(GroupedRows, ALabelIsAClassBelowTheirNumber) {
  auto encoder = bare_encoder();
  PoolingDataConfig config{.kind = PoolingTask::classes, .classes = 3};
  auto good = encode_pooling_row(*encoder, row_of("cat", {{"label", "2"}}), config);
  ASSERT_TRUE(good) << good.error();
  EXPECT_EQ((*good)[0].sequence_labels, std::vector<float>{2});
  for (const Json& label : {Json(3), Json(-1), Json(0.5), Json("x"), Json({1, 2})})
    EXPECT_FALSE(encode_pooling_row(*encoder, row_of("cat", {{"label", label}}), config)) << label;
  config.one_class = false;
  EXPECT_EQ((*encode_pooling_row(*encoder, row_of("cat", {{"label", {0, 2}}}), config))[0].sequence_labels,
            (std::vector<float>{0, 2}));
  config.whole_numbers = false;
  EXPECT_EQ((*encode_pooling_row(*encoder, row_of("cat", {{"label", {0.5, 2, -1}}}), config))[0].sequence_labels,
            (std::vector<float>{0.5, 2, -1}));
  EXPECT_FALSE(encode_pooling_row(*encoder, row_of("cat", {{"label", 0.5}}), config));
}

TEST(GroupedRows, AnAnchorStandsBeforeItsPositiveAndNegatives) {
  auto row = row_of("cat", {{"positive_messages", answers({"tom", "ignored"})}, {"negative_messages", answers({"dog", "cow"})}});
  auto group = encode_pooling_row(*bare_encoder(), row, {.kind = PoolingTask::embedding});
  ASSERT_TRUE(group) << group.error();
  ASSERT_EQ(group->size(), 4u);
  EXPECT_TRUE((*group)[0].sequence_labels.empty());
  EXPECT_EQ((*group)[1].sequence_labels, std::vector<float>{1});
  EXPECT_EQ((*group)[3].sequence_labels, std::vector<float>{0});
  EXPECT_EQ(text_of((*group)[0]), "cat");
  EXPECT_TRUE(text_of((*group)[3]).starts_with("cow"));
  EXPECT_FALSE(encode_pooling_row(*bare_encoder(), row_of("cat", nullptr), {.kind = PoolingTask::embedding}));
}

TEST(GroupedRows, ACandidateGoesOnWhereTheQuestionEnds) {
  auto row = row_of("who? ", {{"positive_messages", answers({"tom"})}, {"negative_messages", answers({"nobody"})}});
  auto group = encode_pooling_row(*bare_encoder(), row, {.kind = PoolingTask::reranking});
  ASSERT_TRUE(group) << group.error();
  EXPECT_EQ(text_of((*group)[0]), "who? tom<|im_end|>");
  EXPECT_EQ(text_of((*group)[1]), "who? nobody<|im_end|>");
  EXPECT_FALSE(encode_pooling_row(*bare_encoder(8), row, {.kind = PoolingTask::reranking}));  // too long, and the rule is to drop
}

TEST(GroupedRows, EachPositiveIsDrawnWithNegativesOfItsOwn) {
  std::vector<Sample> all(9);
  for (size_t i = 0; i < all.size(); ++i)
    all[i].ids = {static_cast<text::TokenId>(i)}, all[i].sequence_labels = {i < 3 ? 1.0f : 0.0f};
  PoolingDataConfig config{.kind = PoolingTask::reranking, .most_positives = 2, .most_negatives = 4};
  std::set<text::TokenId> seen;
  for (uint64_t epoch = 0; epoch < 20; ++epoch) {
    Rng rng(7, epoch);
    auto drawn = sample_candidates(all, config, rng);
    ASSERT_EQ(drawn.size(), 10u);
    for (size_t i : {0u, 5u}) EXPECT_LT(drawn[i].ids[0], 3);
    EXPECT_NE(drawn[0].ids[0], drawn[5].ids[0]);
    std::set<text::TokenId> negatives;
    for (size_t i = 1; i < 5; ++i) negatives.insert(drawn[i].ids[0]), seen.insert(drawn[i].ids[0]);
    EXPECT_EQ(negatives.size(), 4u);
  }
  EXPECT_EQ(seen.size(), 6u);  // over the epochs every candidate is used
}

TEST(GroupedRows, TheTextsOfARowStayInOneBatch) {
  struct Rows : ConversationSource {
    int64_t size() const override { return 5; }
    Result<Conversation> at(int64_t i) const override {
      return row_of(std::string(static_cast<size_t>(i) + 1, 'q'),
                    {{"positive_messages", answers({"p"})}, {"negative_messages", answers({"n", "m"})}});
    }
  };
  LoaderConfig config;
  config.batch_size = 2;
  config.groups = PoolingDataConfig{.kind = PoolingTask::embedding};
  struct Labels : PayloadOf<Labels> {
    std::vector<std::vector<float>> of_text;
  };
  config.payload = [](const std::vector<const Sample*>& texts) {
    auto payload = std::make_shared<Labels>();
    for (const auto* text : texts) payload->of_text.push_back(text->sequence_labels);
    return payload;
  };
  auto loader = make_loader(std::make_shared<Rows>(), bare_encoder(), config, std::make_shared<RowReport>());
  EXPECT_EQ(loader->batches_per_epoch(), 3);
  auto batch = loader->next();
  EXPECT_EQ(batch.segments.count(), 8);
  const auto& labels = payload_of<Labels>(batch).of_text;
  ASSERT_EQ(labels.size(), 8u);
  for (size_t anchor : {0u, 4u}) {
    EXPECT_TRUE(labels[anchor].empty());
    EXPECT_EQ(labels[anchor + 1], std::vector<float>{1});
    EXPECT_EQ(labels[anchor + 3], std::vector<float>{0});
  }
}

}  // namespace
}  // namespace hone::data
