// Event files, plots and log lines: what other programs and people read.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "hone/train/crc32c.h"
#include "hone/train/event_file.h"
#include "hone/train/nlg_metrics.h"
#include "hone/train/plot.h"
#include "hone/train/run_log.h"
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

TEST(Plot, WritesPngsUnderTheNamesOfTheFrontEnd) {
  ScratchFolder scratch;
  Json history = Json::array();
  for (int step = 1; step <= 60; ++step)
    history.push_back({{"loss", 2.5 * std::exp(-step / 25.0) + 0.15 * std::sin(step * 1.7)},
                       {"learning_rate", 1e-4},
                       {"epoch", step / 20.0},
                       {"step", step}});
  history.push_back({{"eval_loss", 1.2}, {"step", 30}});
  history.push_back({{"train_runtime", 3.0}, {"train_loss", 1.0}, {"step", 60}});
  plot_history(history, Layout::swift, scratch.path());
  plot_history(history, Layout::factory, scratch.path());
  for (const char* name : {"images/train_loss.png", "images/train_learning_rate.png", "images/eval_loss.png", "training_loss.png",
                           "training_eval_loss.png"})
    EXPECT_EQ(read_file(scratch.path() / name).substr(1, 3), "PNG") << name;
  EXPECT_FALSE(fs::exists(scratch.path() / "images/train_train_loss.png"));
  if (const char* keep = std::getenv("HONE_KEEP_PLOTS"))
    fs::copy(scratch.path(), keep, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
}

TEST(Plot, SurvivesNanAndASinglePoint) {
  ScratchFolder scratch;
  write_plot(scratch.path() / "one.png", {.title = "one", .y_label = "loss", .steps = {1}, .values = {2}});
  write_plot(scratch.path() / "nan.png", {.title = "nan", .y_label = "loss", .steps = {1, 2, 3}, .values = {1, NAN, 2}});
  write_plot(scratch.path() / "none.png", {.title = "none", .y_label = "loss"});
  EXPECT_TRUE(fs::exists(scratch.path() / "none.png"));
}

TEST(Smoothing, AConstantStaysWhatItIs) {
  std::vector<double> flat(20, 3.0);
  for (double value : smooth_debiased(flat, 0.9)) EXPECT_NEAR(value, 3.0, 1e-12);
  for (double value : smooth_by_length(flat)) EXPECT_NEAR(value, 3.0, 1e-12);
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

}  // namespace
}  // namespace hone::train
