// Event files, plots and log lines: what other programs and people read.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "hone/train/evaluation/nlg_metrics.h"
#include "hone/train/reports/axis.h"
#include "hone/train/reports/crc32c.h"
#include "hone/train/reports/event_file.h"
#include "hone/train/reports/figure.h"
#include "hone/train/reports/plot.h"
#include "hone/train/reports/run_log.h"
#include "train/scratch_folder.h"

namespace hone::train {
namespace {

TEST(Crc32c, MatchesThePublishedVectors) {  // RFC 3720, appendix B.4
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c("6789", crc32c("12345")), 0xE3069283u);
}

TEST(EventFile, FramesEveryRecord) {
  ScratchFolder scratch;
  fs::path path;
  {
    EventFile events(scratch.path() / "runs");
    events.add("train/loss", 1.5, 300);
    path = events.path();
  }
  std::string bytes = read_file(path);
  size_t at = 0, records = 0;
  while (at < bytes.size()) {
    uint64_t length;
    std::memcpy(&length, bytes.data() + at, 8);
    at += 12 + length + 4;
    ++records;
  }
  EXPECT_EQ(at, bytes.size());
  EXPECT_EQ(records, 2u);
  EXPECT_NE(bytes.find("brain.Event:2"), std::string::npos);
  EXPECT_NE(bytes.find("train/loss"), std::string::npos);
}

Json history_of(int steps) {
  Json history = Json::array();
  for (int step = 1; step <= steps; ++step) {
    history.push_back({{"loss", 2.5 * std::exp(-step / 25.0) + 0.15 * std::sin(step * 1.7)},
                       {"learning_rate", 1e-4},
                       {"grad_norm", 1.0 + step % 3},
                       {"epoch", step / 20.0},
                       {"step", step}});
    if (step % 20 == 0) history.push_back({{"eval_loss", 2.6 * std::exp(-step / 25.0)}, {"step", step}});
  }
  history.push_back({{"train_runtime", 3.0}, {"train_loss", 1.0}, {"step", steps}});
  return history;
}

TEST(Plot, WritesPicturesUnderTheNamesOfTheFrontEnd) {
  if (!can_draw()) GTEST_SKIP() << "built without Cairo";
  ScratchFolder scratch;
  auto history = history_of(60);
  plot_history(history, Layout::swift, scratch.path());
  plot_history(history, Layout::factory, scratch.path());
  for (const char* name : {"images/train_loss", "images/train_learning_rate", "images/eval_loss", "images/overview",
                           "training_loss", "training_eval_loss", "training_overview"}) {
    EXPECT_EQ(read_file(scratch.path() / (std::string(name) + ".png")).substr(1, 3), "PNG") << name;
    EXPECT_NE(read_file(scratch.path() / (std::string(name) + ".svg")).find("</svg>"), std::string::npos) << name;
  }
  EXPECT_FALSE(fs::exists(scratch.path() / "images/train_train_loss.png"));
  if (const char* keep = std::getenv("HONE_KEEP_PLOTS"))
    fs::copy(scratch.path(), keep, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
}

TEST(Plot, DrawsEvaluationsBesideTheLoss) {
  if (!can_draw()) GTEST_SKIP() << "built without Cairo";
  ScratchFolder scratch;
  auto loss_alone = Json::array();
  for (const auto& item : history_of(60))
    if (!item.contains("eval_loss")) loss_alone.push_back(item);
  fs::create_directories(scratch.path() / "with"), fs::create_directories(scratch.path() / "without");
  plot_history(history_of(60), Layout::factory, scratch.path() / "with");
  plot_history(loss_alone, Layout::factory, scratch.path() / "without");
  auto orange = [&](const char* run) {
    return read_file(scratch.path() / run / "training_loss.svg").find("rgb(85%,42%,5%)") != std::string::npos;
  };
  EXPECT_TRUE(orange("with"));
  EXPECT_FALSE(orange("without"));
}

TEST(Plot, SurvivesNanASinglePointAndNone) {
  if (!can_draw()) GTEST_SKIP() << "built without Cairo";
  ScratchFolder scratch;
  auto draw = [&](Series series) {
    write_figure(scratch.path() / "one.png", {.charts = {{.title = "one", .series = {std::move(series)}}}});
  };
  draw({.x = {1}, .y = {2}});
  draw({.x = {1, 2, 3}, .y = {1, NAN, 2}});
  draw({.x = {1, 2, 3}, .y = {NAN, INFINITY, -INFINITY}});
  draw({});
  EXPECT_TRUE(fs::exists(scratch.path() / "one.png"));
}

// A box stands for a character that the font lacks, and all boxes look alike.
TEST(Plot, ShowsChineseWhereAFontHasIt) {
  if (!can_draw() || std::system("fc-list :lang=zh family 2>/dev/null | grep -q .") != 0)
    GTEST_SKIP() << "no font with Chinese characters";
  ScratchFolder scratch;
  auto picture_of = [&](const char* title) {
    write_figure(scratch.path() / "title.png", {.title = title, .charts = {{.series = {{.x = {1, 2}, .y = {1, 2}}}}}});
    return read_file(scratch.path() / "title.png");
  };
  EXPECT_NE(picture_of("训练"), picture_of("奖励"));
}

TEST(Plot, MarksRoundNumbers) {
  auto texts = [](AxisOptions options, std::vector<double> values, int ticks) {
    Axis axis(options, values, ticks, false);
    std::vector<std::string> all;
    for (double tick : axis.ticks()) all.push_back(axis.tick_text(tick));
    all.push_back(axis.factor_text());
    return all;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts({}, {0, 1}, 5), (Texts{"0.0", "0.2", "0.4", "0.6", "0.8", "1.0", ""}));
  EXPECT_EQ(texts({}, {0, 1e-4}, 5), (Texts{"0.0", "0.2", "0.4", "0.6", "0.8", "1.0", "×1e-4"}));
  EXPECT_EQ(texts({.integers = true}, {1, 3}, 8), (Texts{"1", "2", "3", ""}));
  EXPECT_EQ(texts({.unit = "%", .low = 0, .high = 1, .scale = 100}, {}, 4),
            (Texts{"0%", "20%", "40%", "60%", "80%", "100%", ""}));
}

TEST(Smoothing, FollowsWithoutLagOrBias) {
  for (double value : smooth(std::vector<double>(20, 3.0))) EXPECT_NEAR(value, 3.0, 1e-12);
  std::vector<double> slope;
  for (int i = 0; i < 200; ++i) slope.push_back(5.0 - 0.02 * i + (i % 2 ? 0.3 : -0.3));
  auto smoothed = smooth(slope);
  for (size_t i = 30; i < 170; ++i)
    EXPECT_NEAR(smoothed[i], 5.0 - 0.02 * static_cast<double>(i), 0.05) << i;  // an average of the past would be 0.2 above
  auto gap = smooth({1, NAN, 1});
  EXPECT_TRUE(std::isnan(gap[1]));
  EXPECT_NEAR(gap[2], 1, 1e-12);
}

TEST(LogLine, LooksLikePythons) {
  Json line{{"loss", 2.0}, {"learning_rate", 1e-05}, {"global_step/max_steps", "5/40"}, {"best", nullptr}, {"on", true},
            {"n", 3}};
  EXPECT_EQ(python_repr(line),
            "{'loss': 2.0, 'learning_rate': 1e-05, 'global_step/max_steps': '5/40', 'best': None, 'on': True, 'n': 3}");
  EXPECT_EQ(python_repr(round_floats(Json{{"x", 0.123456789123}}, 8)), "{'x': 0.12345679}");
}

TEST(MetricsTable, IsSortedAndAligned) {
  EXPECT_EQ(metrics_table("eval", {{"eval_runtime", 3.25}, {"eval_loss", 1.23456}, {"epoch", 1.0}}),
            "***** eval metrics *****\n  epoch        =        1.0\n  eval_loss    =     1.2346\n  eval_runtime = 0:00:03.25\n");
}

TEST(TextScores, WordsAreLatinRunsOrSingleCharacters) {
  EXPECT_EQ(rouge_words("It's 3.14 (50%), node.js"),
            (std::vector<std::string>{"It", "'", "s", "3.14", "(", "50%", ")", ",", "node", ".", "js"}));
  EXPECT_EQ(rouge_words("你好 a1"), (std::vector<std::string>{"你", "好", "a1"}));
}

TEST(TextScores, SameTextIsPerfectAndEmptyIsZero) {
  auto same = score_text("the cat sat on the mat", "the cat sat on the mat");
  EXPECT_NEAR(same.rouge_1, 100, 1e-3);
  EXPECT_NEAR(same.rouge_l, 100, 1e-3);
  EXPECT_NEAR(same.bleu_4, 100, 1e-3);
  EXPECT_EQ(score_text("", "x").bleu_4, 0);
  EXPECT_EQ(score_text("", "x").rouge_1, 0);
}

// Run by tests/train/test_text_metrics.py: scores each {"predict", "label"} line of $HONE_TEST_FILE into $HONE_TEST_FILE.scores.
TEST(TextScoresWorker, DISABLED_ScoresAFile) {
  std::string path = std::getenv("HONE_TEST_FILE"), lines = read_file(path), scored;
  for (size_t begin = 0, end; (end = lines.find('\n', begin)) != std::string::npos; begin = end + 1) {
    auto row = parse_json(lines.substr(begin, end - begin)).or_throw(ExitCode::bad_data, path);
    auto scores = score_text(row["predict"].get<std::string>(), row["label"].get<std::string>());
    scored +=
        Json{{"rouge-1", scores.rouge_1}, {"rouge-2", scores.rouge_2}, {"rouge-l", scores.rouge_l}, {"bleu-4", scores.bleu_4}}
            .dump() +
        "\n";
  }
  write_file_atomically(path + ".scores", scored);
}

TEST(CompactLine, ShowsWhatTellsWhetherAMethodLearns) {
  TrainState state;
  state.global_step = 1, state.max_steps = 4, state.epoch = 0.08;
  const Json values{{"loss", 0.5},
                    {"grad_norm", 2.0},
                    {"learning_rate", 1e-4},
                    {"clip_ratio/high_max", 0.0},
                    {"clip_ratio/low", 0.0},
                    {"completions/mean_length", 12.5},
                    {"kl", 0.01},
                    {"reward", 1.0},
                    {"reward_std", 0.25}};
  EXPECT_EQ(compact_line(values, state, 110),
            "step 1/4  epoch 0.08  loss 0.5  reward 1  reward_std 0.25  kl 0.01  length 12.5  grad 2  lr 1.00e-04");
}

}  // namespace
}  // namespace hone::train
