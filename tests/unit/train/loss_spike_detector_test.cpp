#include "hone/train/loop/loss_spike_detector.h"

#include <gtest/gtest.h>

namespace hone::train {
namespace {

TEST(LossSpikeDetector, SaysNothingBeforeItKnowsEnough) {
  LossSpikeDetector watch;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(watch.observe(1.0), 0);
  EXPECT_EQ(watch.observe(1000.0), 0);
}

TEST(LossSpikeDetector, MeasuresByTheSpreadOfWhatCameBefore) {
  LossSpikeDetector watch;
  for (int i = 0; i < 100; ++i) watch.observe(i % 2 ? 2.1 : 1.9);
  EXPECT_NEAR(watch.observe(4.0), 20, 0.1);
  EXPECT_LT(watch.observe(2.1), 2);
}

TEST(LossSpikeDetector, ALevelThatStaysIsNoLongerNew) {
  LossSpikeDetector watch;
  for (int i = 0; i < 50; ++i) watch.observe(1.0);
  EXPECT_GT(watch.observe(3.0), 20);
  int spikes = 0;
  for (int i = 0; i < 20; ++i) spikes += watch.observe(3.0) > 20;
  EXPECT_EQ(spikes, 0);
}

TEST(LossSpikeDetector, GoesOnWhereItWas) {
  LossSpikeDetector first, second;
  for (int i = 0; i < 40; ++i) first.observe(1.0 + 0.01 * i);
  second.restore(first.state());
  EXPECT_EQ(first.observe(2.5), second.observe(2.5));
}

}  // namespace
}  // namespace hone::train
