// Episodes of several rounds: what a round without room leaves, and what checkpoints hold.
#include "hone/train/rl/turns/turn_loop.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "data/byte_tokenizer.h"

namespace hone::train::rl {
namespace {

struct Played {
  RolloutSample sample;
  bool goes_on;
};

std::shared_ptr<const data::Encoder> encoder_of_text() {
  return data::Encoder::make({.template_name = "qwen"}, data::chatml_tokenizer(), {});
}

// One completion, and what follows it.
Played play(const EpisodeLimits& limits, const NextTurn& next) {
  const auto encoder = encoder_of_text();
  data::Conversation question;
  question.messages = {{.role = "user", .content = "one and one"}};
  auto ids = encoder->encode_prompt(question);
  Played played{{std::make_shared<const Prompt>(Prompt{3, question, *ids}), {}}, false};
  Episode episode(played.sample, 1, limits, *encoder);
  episode.take({.tokens = {'t', 'w', 'o'}, .text = "two"});
  const auto followed = episode.follow(next, *encoder);
  EXPECT_TRUE(followed) << followed.error();
  played.goes_on = followed && *followed;
  return played;
}

Played play(const EpisodeLimits& limits, bool splits) {
  return play(limits, NextTurn{.replies = {{.role = "user", .content = "are you sure?"}}, .splits = splits});
}

TEST(Episode, ARoundWithoutRoomKeepsTheAnswer) {
  const auto roomy = play({.max_completion_length = 8, .max_model_len = 4096}, true);
  EXPECT_TRUE(roomy.goes_on);
  ASSERT_EQ(roomy.sample.earlier.size(), 1u);
  EXPECT_EQ(roomy.sample.earlier.front().completion.text, "two");
  const EpisodeLimits narrow{.max_completion_length = 8, .max_model_len = 64},
      used_up{.max_completion_length = 3, .max_model_len = 4096, .limits_total = true};
  for (const auto& limits : {narrow, used_up})
    for (bool splits : {true, false}) {
      const auto [sample, goes_on] = play(limits, splits);
      EXPECT_FALSE(goes_on);
      EXPECT_TRUE(sample.completion.truncated && sample.earlier.empty());
      EXPECT_EQ(sample.completion.text, "two");
      EXPECT_EQ(sample.completion.tokens, (std::vector<text::TokenId>{'t', 'w', 'o'}));  // without the reply
      EXPECT_EQ(training_rounds({&sample, 1}), TrainingRounds{&sample});
    }
}

TEST(Episode, AContinuationWithoutRoomLeavesTheAnswerWhole) {
  const NextTurn doubt{.keep = 1, .continued = " But wait..."};
  const auto roomy = play({.max_completion_length = 8, .max_model_len = 4096}, doubt);
  EXPECT_TRUE(roomy.goes_on);
  EXPECT_EQ(roomy.sample.completion.tokens.size(), 1 + doubt.continued->size());
  const auto [sample, goes_on] = play({.max_completion_length = 3, .max_model_len = 4096, .limits_total = true}, doubt);
  EXPECT_TRUE(!goes_on && sample.completion.truncated);
  EXPECT_EQ(sample.completion.tokens, (std::vector<text::TokenId>{'t', 'w', 'o'}));
}

TEST(Episode, CheckpointsKeepWhatMessagesCarry) {
  auto played = play({.max_completion_length = 8, .max_model_len = 4096}, true);
  auto prompt = *played.sample.prompt;
  prompt.question.messages[1].extra = {{"reasoning_content", "hm"}, {"tool_calls", {{{"name", "add"}}}}};
  played.sample.prompt = std::make_shared<const Prompt>(prompt);
  RolloutSample read{std::make_shared<const Prompt>(Prompt{3, {}, {}}), {}};
  read_json(to_json(played.sample), *encoder_of_text(), read);
  ASSERT_EQ(read.prompt->question.messages.size(), 3u);
  EXPECT_EQ(read.prompt->question.messages[1].extra, prompt.question.messages[1].extra);
  EXPECT_TRUE(read.turns.own_prompt);
  EXPECT_EQ(training_rounds({&read, 1}).front()->completion.text, "two");
  // Those of earlier versions.
  const auto old = messages_from_json(Json::array({Json::array({"user", "a"}), Json::array({"assistant", "b"})}));
  ASSERT_EQ(old.size(), 2u);
  EXPECT_EQ(old[1].content, "b");
  EXPECT_TRUE(old[1].extra.is_null());
}

// Pictures of 56 x 56 and of 84 x 56 pixels, of four and of six tokens.
const std::string kSquare =
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAADgAAAA4CAIAAAAn5KxJAAAAQklEQVR42u3OAQ0AMAjAsHH/wpCFjietgs72h5eoqKioqKioqKioqKioqKioqK"
    "ioqKioqKioqKioqKioqKioqGhVBx5bATgAckEJAAAAAElFTkSuQmCC";
const std::string kWide =
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAFQAAAA4CAIAAADsP0i3AAAAUklEQVR42u3PAQEAAAgCIOv/sGY1RHjAJJdWm2Ly8vLy8vLy8vLy8vLy8vLy8v"
    "Ly8vLy8vLy8vLy8vLy8vLy8vLy8vLy8vLy8vLy8vLy8vLynR6QOQE4oFoJCAAAAABJRU5ErkJggg==";

struct Seeing {
  std::shared_ptr<const text::Tokenizer> tokenizer = std::make_shared<data::ByteTokenizer>(
      std::vector<std::string>{"<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|image_pad|>", "<|vision_end|>"},
      "<|im_end|>");
  std::shared_ptr<const data::Encoder> encoder =
      data::Encoder::make({.template_name = "qwen2_vl"}, tokenizer, {.model_type = "qwen2_vl", .vision = Json::object()});
  text::TokenId pad = *tokenizer->id_of("<|image_pad|>");

  std::shared_ptr<const Prompt> prompt() const {
    Prompt prompt{.row = 3, .question = {}, .ids = {}};
    prompt.question.messages = {{.role = "user", .content = "<image>what is an <image>?"}};
    prompt.question.images = {kSquare};
    prompt.question.origin = {"rows.jsonl", 1, ""};
    prompt.ids = encoder->encode_prompt(prompt.question, &prompt.pictures, &prompt.sounds).or_throw(ExitCode::bad_data, "");
    prompt.sources = {{data::MediaSource::Kind::image, kSquare}};
    return std::make_shared<const Prompt>(std::move(prompt));
  }

  // Each picture of a sample covers placeholders, in order.
  void expect_pictures(const RolloutSample& sample, const std::vector<int64_t>& tokens) const {
    const auto whole = training_sample(sample);
    std::vector<int64_t> found;
    for (const auto& picture : whole.pictures) {
      found.push_back(picture.geometry.tokens);
      for (int64_t i = 0; i < picture.geometry.tokens; ++i) {
        EXPECT_EQ(whole.ids[picture.position(i)], pad);
        EXPECT_EQ(whole.labels[picture.position(i)], data::kIgnore);
      }
      EXPECT_NE(whole.ids[picture.first - 1], pad);
    }
    EXPECT_EQ(found, tokens);
  }
};

TEST(Episode, TurnsBringImages) {
  const Seeing seeing;
  for (bool splits : {false, true}) {
    RolloutSample sample{seeing.prompt(), {}};
    Episode episode(sample, 1, {.max_completion_length = 64, .max_model_len = 4096}, *seeing.encoder, sample.prompt->media());
    // The model may spell a tag, and sample placeholders.
    episode.take({.tokens = {'a', seeing.pad, seeing.pad, seeing.pad, seeing.pad, 'b'}, .text = "a <image>"});
    const NextTurn next{.done = false,
                        .replies = {{"user", "look: <image> and <image>", {kWide, kSquare}}, {"user", "no <image>"}},
                        .splits = splits};
    const auto followed = episode.follow(next, *seeing.encoder);
    ASSERT_TRUE(followed) << followed.error();
    EXPECT_TRUE(*followed);
    EXPECT_EQ(episode.input(false).question->images, (std::vector<std::string>{kSquare, kWide, kSquare}));
    episode.take({.tokens = {'c'}, .text = "c"});
    seeing.expect_pictures(sample, {4, 6, 4});
    EXPECT_EQ(sample.earlier.size(), splits ? 1u : 0u);
    const auto text = seeing.tokenizer->decode(episode.context(), false);
    EXPECT_NE(text.find("what is an <image>?"), std::string::npos);
    EXPECT_NE(text.find("no <image>"), std::string::npos);
    const auto placement = episode.media()->placement();
    EXPECT_EQ(placement.sources.size(), 3u);
    EXPECT_EQ(placement.sources[1].source, kWide);
    const auto question = question_of(sample);
    EXPECT_EQ(question.images.size(), 3u);

    RolloutSample read{seeing.prompt(), {}};
    read_json(to_json(sample), *seeing.encoder, read);
    seeing.expect_pictures(read, {4, 6, 4});
    EXPECT_EQ(training_sample(read).ids, training_sample(sample).ids);
    EXPECT_EQ(own_media_json({&read}), own_media_json({&sample}));

    auto other = placement;
    other.sources[1].source = kSquare;
    const auto refused = data::place_media(*seeing.encoder, episode.context(), other);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().find("have 14 placeholders for 3 media, of which the settings of this model make 12"),
              std::string::npos)
        << refused.error();
  }
}

TEST(Episode, AnImageIsInItsOwnReply) {
  const Seeing seeing;
  const std::string shown =
      "<|vision_start|><|image_pad|><|image_pad|><|image_pad|><|image_pad|><|image_pad|><|image_pad|><|vision_end|>";
  const auto rendered = [&](const std::vector<ReplyMessage>& replies) {
    RolloutSample sample{seeing.prompt(), {}};
    Episode episode(sample, 1, {.max_completion_length = 64, .max_model_len = 4096}, *seeing.encoder, sample.prompt->media());
    episode.take({.tokens = {'a'}, .text = "a"});
    EXPECT_TRUE(episode.follow({.done = false, .replies = replies}, *seeing.encoder));
    seeing.expect_pictures(sample, {4, 6});
    return seeing.tokenizer->decode(sample.completion.tokens, false);
  };
  const auto untagged = rendered({{"tool", "first"}, {"tool", "second", {kWide}}});
  EXPECT_NE(untagged.find(shown + "second"), std::string::npos) << untagged;
  const auto spelled = rendered({{"tool", "a page with <image>"}, {"tool", "second: <image>", {kWide}}});
  EXPECT_NE(spelled.find("a page with <image>"), std::string::npos) << spelled;
  EXPECT_NE(spelled.find("second: " + shown), std::string::npos) << spelled;
}

TEST(Episode, ImagesOfTurnsAreNoText) {
  const Seeing seeing;
  const auto prompt = seeing.prompt();
  const auto goes_on = [&](int64_t max_model_len, int64_t max_text_len, bool splits, bool own_prompt = false) {
    RolloutSample sample{prompt, {}};
    sample.turns.own_prompt = own_prompt;
    Episode episode(sample, 1, {.max_completion_length = 64, .max_model_len = max_model_len, .max_text_len = max_text_len},
                    *seeing.encoder, prompt->media());
    episode.take({.tokens = {'a'}, .text = "a"});
    const auto followed =
        episode.follow({.done = false, .replies = {{"user", "<image>", {kWide}}}, .splits = splits}, *seeing.encoder);
    EXPECT_TRUE(followed) << followed.error();
    EXPECT_EQ(sample.completion.truncated, !*followed);
    return *followed;
  };
  for (const bool splits : {false, true}) {
    int64_t shortest = 1;  // context
    while (!goes_on(shortest, 4096, splits)) ++shortest;
    EXPECT_TRUE(goes_on(shortest, shortest - 6, splits));  // the picture has six tokens
    EXPECT_FALSE(goes_on(shortest, shortest - 7, splits));
    EXPECT_TRUE(goes_on(shortest, shortest - 10, splits, true));  // an environment's, of four
    EXPECT_FALSE(goes_on(shortest, shortest - 11, splits, true));
  }
}

TEST(Episode, ContextsHaveRoomForImagesOfTurns) {
  const Seeing seeing;
  const auto limits = [](const std::string& scheduler, const data::Encoder& encoder) {
    return TurnLoop::context_limits(TurnConfig{.scheduler = scheduler, .max_turns = 2}, encoder, 100, 50, 4096);
  };
  const int64_t text = 100 + 2 * 50 + 512;
  EXPECT_EQ(limits("hermes_tools", *seeing.encoder).max_model_len, 4096);
  EXPECT_EQ(limits("a plugin's", *seeing.encoder).max_model_len, 4096);
  EXPECT_EQ(limits("hermes_tools", *seeing.encoder).max_text_len, text);
  EXPECT_EQ(limits("react_tools", *seeing.encoder).max_model_len, text);
  const TurnConfig text_only{.scheduler = "hermes_tools", .max_turns = 2, .text_only = true};
  EXPECT_EQ(TurnLoop::context_limits(text_only, *seeing.encoder, 100, 50, 4096).max_model_len, text);
  EXPECT_EQ(limits("hermes_tools", *encoder_of_text()).max_model_len, text);
}

// Replies with one image each, and begins episodes with it.
struct Shows final : TurnScheduler {
  std::string image;
  bool splits;
  explicit Shows(std::string source, bool starts_round = false) : image(std::move(source)), splits(starts_round) {}
  void start(const std::vector<uint64_t>&, std::vector<data::Conversation>& questions) override {
    for (auto& question : questions) question.images.push_back(image);
  }
  std::vector<NextTurn> advance(const std::vector<TurnInput>& turns) override {
    return std::vector<NextTurn>(
        turns.size(), {.done = false, .replies = {{"user", "<image>", {image}}}, .splits = splits, .infos = {{"n", 1}}});
  }
};

TEST(Episode, AnUnusableImageEndsItInAnyRound) {
  const Seeing seeing;
  data::Conversation question;
  const TurnInput turn{.question = &question};
  for (const bool splits : {false, true}) {
    const auto next = with_inlined_images(std::make_unique<Shows>("/no/such.png", splits), seeing.encoder)->advance({turn}).at(0);
    EXPECT_TRUE(next.done && next.replies.empty() && !next.splits);
  }
}

TEST(Episode, ImagesOfTurnsAreReadOnce) {
  const Seeing seeing;
  const auto file = std::filesystem::path(testing::TempDir()) / "hone_episode_image.png";
  std::ofstream(file, std::ios::binary) << media::Medium::open(kWide).or_throw(ExitCode::bad_data, "").bytes();
  std::vector<data::Conversation> questions(1);
  questions[0].images = {"row.png"};
  const TurnInput turn{.question = &questions[0]};
  const auto scheduler = with_inlined_images(std::make_unique<Shows>(file.string()), seeing.encoder);
  scheduler->start({1}, questions);
  auto next = scheduler->advance({turn}).at(0);
  std::filesystem::remove(file);
  EXPECT_EQ(questions[0].images.at(0), "row.png");
  for (const auto& image : {questions[0].images.at(1), next.replies.at(0).images.at(0)}) {
    EXPECT_TRUE(image.starts_with("data:application/octet-stream;"));  // bytes to plugins
    EXPECT_EQ(media::Medium::open(image).or_throw(ExitCode::bad_data, "").bytes(),
              media::Medium::open(kWide).or_throw(ExitCode::bad_data, "").bytes());
  }
  next = scheduler->advance({turn}).at(0);
  EXPECT_TRUE(next.done && next.replies.empty());
  EXPECT_EQ(next.infos, (Json{{"n", 1}}));
  EXPECT_THROW(scheduler->start({1}, questions), UserError);
  EXPECT_THROW(with_inlined_images(std::make_unique<Shows>(kWide), encoder_of_text())->advance({turn}), UserError);
  EXPECT_THROW(with_inlined_images(std::make_unique<Shows>(kWide), seeing.encoder, true)->advance({turn}), UserError);
}

}  // namespace
}  // namespace hone::train::rl
