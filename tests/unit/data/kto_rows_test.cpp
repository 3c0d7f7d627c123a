// Rows of good and bad answers: who gives whom an answer, in which order a batch holds them, whatever the processes.
#include "hone/data/encode/kto_rows.h"

#include <gtest/gtest.h>

#include <map>

#include "byte_tokenizer.h"
#include "hone/data/batches/batch_sampler.h"
#include "hone/data/batches/make_loader.h"

namespace hone::data {
namespace {

std::shared_ptr<const Encoder> plain_encoder(int64_t max_length = 0) {
  return Encoder::make({.template_name = "qwen3_nothinking", .max_length = max_length, .loss_scale = "last_round"},
                       chatml_tokenizer(), {});
}

// Row i asks "q<i>" and answers "a<i>".
struct Answers : ConversationSource {
  int64_t size() const override { return 10; }
  Result<Conversation> at(int64_t index) const override {
    auto number = std::to_string(index);
    return Conversation{.messages = {{.role = "user", .content = "q" + number}, {.role = "assistant", .content = "a" + number}},
                        .label = index % 3 == 0};
  }
};

// Prompts of KL pairs to the number of their answer, over one epoch of all processes.
std::map<std::string, char> kl_pairs_of_epoch(int64_t batch, int world, KtoConfig feedback, int64_t packing_length = 0) {
  std::map<std::string, char> pairs;
  for (int rank = 0; rank < world; ++rank) {
    LoaderConfig config{.batch_size = batch, .rank = rank, .world_size = world, .packing_length = packing_length};
    config.feedback = feedback;
    if (packing_length > 0) config.packing = Packing::best_fit;
    auto loader = make_loader(std::make_shared<Answers>(), plain_encoder(), config, std::make_shared<RowReport>());
    while (loader->epoch() < 1) {
      auto found = loader->next();
      for (int64_t i = found.sample_count; i < found.segments.count(); ++i) {
        auto ids = found.tokens_t.narrow(0, found.segments.offsets[static_cast<size_t>(i)], found.segments.length(i))
                       .to(at::kInt)
                       .contiguous();
        auto text = chatml_tokenizer()->decode({ids.const_data_ptr<int>(), static_cast<size_t>(ids.numel())}, false);
        pairs[text.substr(text.find("user\n") + 5, 2)] = text[text.find("assistant\n") + 11];
      }
    }
  }
  return pairs;
}

TEST(FeedbackRows, AnswersGoRoundByOneInABlock) {
  std::vector<int64_t> pairs;
  for (int64_t place = 0; place < 7; ++place) pairs.push_back(kl_partner(place, 7, 4));
  EXPECT_EQ(pairs, (std::vector<int64_t>{3, 0, 1, 2, 6, 4, 5}));
}

TEST(FeedbackRows, ARowHasItsGradeAndItsPromptOnceMore) {
  Answers rows;
  auto own = *rows.at(3), mate = *rows.at(7);
  auto samples = encode_kto_row(*plain_encoder(), own, &mate);
  ASSERT_TRUE(samples) << samples.error();
  ASSERT_EQ(samples->size(), 2u);
  EXPECT_EQ((*samples)[0].sequence_labels, std::vector<float>{1});
  EXPECT_TRUE((*samples)[1].sequence_labels.empty());
  EXPECT_EQ(encode_kto_row(*plain_encoder(), own, nullptr)->size(), 1u);
  auto length = static_cast<int64_t>((*samples)[0].ids.size());
  mate.messages.back().content += " and very much more";
  EXPECT_EQ(encode_kto_row(*plain_encoder(length), own, &mate)->size(), 1u);  // too long with that answer
  own.label.reset();
  EXPECT_TRUE(encode_kto_row(*plain_encoder(), own, &mate).error().find("has no \"label\"") != std::string::npos);
  own.extra["label"] = "maybe";
  EXPECT_TRUE(encode_kto_row(*plain_encoder(), own, &mate).error().find("\"label\" is \"maybe\"; expected true") !=
              std::string::npos);
  own.label = true;
  own.images = {"a.png"};
  EXPECT_TRUE(encode_kto_row(*plain_encoder(), own, nullptr).error().find("a text-only model") != std::string::npos);
}

TEST(PairRows, AMarginIsANumberWhereItIsLearnt) {
  Conversation row = *Answers().at(3);
  row.rejected = Answers().at(4)->messages;
  LoaderConfig config{.pairs = true};
  for (bool learnt : {false, true}) {
    config.margins = learnt;
    row.extra = {{"margin", 0.5}};
    EXPECT_EQ(encode_conversation(*plain_encoder(), row, config, 0)->front().sequence_labels, std::vector<float>{0.5});
    row.extra["margin"] = "wide";
    EXPECT_EQ(encode_conversation(*plain_encoder(), row, config, 0).ok(), !learnt);
  }
}

TEST(PairRows, RowsWithoutPairsAreNamedByWhatTheyAreFor) {
  try {
    make_loader(std::make_shared<Answers>(), plain_encoder(),
                {.batch_size = 2, .display_name = "the validation data", .pairs = true}, std::make_shared<RowReport>());
    ADD_FAILURE() << "expected an error";
  } catch (const UserError& error) {
    EXPECT_TRUE(std::string_view(error.what()).starts_with("the validation data has no usable row\nskipped 10 of 10 rows"))
        << error.what();
  }
}

TEST(FeedbackRows, ABatchHoldsOwnAnswersFirst) {
  LoaderConfig config{.batch_size = 5, .shuffle = false};
  config.feedback = {.block = 5};
  struct HasLabel : PayloadOf<HasLabel> {
    std::vector<bool> of_sequence;
  };
  config.payload = [](const std::vector<const Sample*>& sequences) {
    auto payload = std::make_shared<HasLabel>();
    for (const auto* sample : sequences) payload->of_sequence.push_back(!sample->sequence_labels.empty());
    return payload;
  };
  auto batch = make_loader(std::make_shared<Answers>(), plain_encoder(), config, std::make_shared<RowReport>())->next();
  EXPECT_EQ(batch.sample_count, 5);
  EXPECT_EQ(batch.segments.count(), 10);
  EXPECT_EQ(batch.rows, (std::vector<int64_t>{0, 1, 2, 3, 4}));
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(payload_of<HasLabel>(batch).of_sequence[i], i < 5);
}

TEST(FeedbackRows, PacksHoldRowsWithTheirKlPairs) {
  KtoConfig feedback{.block = 5};
  EXPECT_EQ(kl_pairs_of_epoch(1, 1, feedback, /*packing_length=*/400), kl_pairs_of_epoch(5, 1, feedback));
  LoaderConfig config{.batch_size = 2, .packing = Packing::best_fit, .packing_length = 400};
  config.feedback = feedback;
  auto batch = make_loader(std::make_shared<Answers>(), plain_encoder(), config, std::make_shared<RowReport>())->next();
  EXPECT_GT(batch.sample_count, 2);
  EXPECT_EQ(batch.segments.count(), 2 * batch.sample_count);
  EXPECT_EQ(batch.rows.size(), static_cast<size_t>(batch.sample_count));
}

TEST(FeedbackRows, KlPairsAreTheSameOnAnyNumberOfProcesses) {
  KtoConfig feedback{.block = 5};
  auto alone = kl_pairs_of_epoch(5, 1, feedback);
  EXPECT_EQ(alone.size(), 10u);
  EXPECT_EQ(kl_pairs_of_epoch(1, 5, feedback), alone);
  EXPECT_NE(kl_pairs_of_epoch(5, 1, {.block = 5, .in_file_order = true}), alone);
  EXPECT_EQ(kl_pairs_of_epoch(5, 1, {.block = 1000, .in_file_order = true})["q4"], '3');
  EXPECT_TRUE(kl_pairs_of_epoch(5, 1, {.with_kl_pairs = false}).empty());
}

}  // namespace
}  // namespace hone::data
