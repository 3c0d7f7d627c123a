#include "hone/train/loop/stop_signal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hone::train {
namespace {

TEST(StopSignal, NotesTheKindAndRestoresTheOldHandler) {
  struct sigaction before, after;
  ::sigaction(SIGTERM, nullptr, &before);
  {
    StopSignal signals;
    EXPECT_EQ(StopSignal::requested(), Stop::none);
    ::raise(SIGTERM);
    EXPECT_EQ(StopSignal::requested(), Stop::terminate);
  }
  {
    StopSignal signals;
    EXPECT_EQ(StopSignal::requested(), Stop::none);
    ::raise(SIGINT);
    EXPECT_EQ(StopSignal::requested(), Stop::interrupt);
  }
  ::sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

TEST(StopSignal, AClosedTerminalSavesAndAWarningAfterTheEndIsNone) {
  {
    StopSignal signals;
    ::raise(SIGHUP);
    EXPECT_EQ(StopSignal::requested(), Stop::terminate);
  }
  ::raise(SIGUSR1);  // would end this very program
  ::signal(SIGHUP, SIG_IGN);
  {
    StopSignal signals;
    ::raise(SIGHUP);
    EXPECT_EQ(StopSignal::requested(), Stop::none);
  }
  ::signal(SIGHUP, SIG_DFL);
}

TEST(StopSignal, TheSecondLeavesAtOnce) {
  for (auto [signal, code] : {std::pair{SIGINT, 130}, {SIGTERM, 128 + SIGTERM}}) {
    pid_t child = ::fork();
    if (child == 0) {
      StopSignal signals;
      ::raise(signal);
      ::raise(signal);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), code);
  }
}

}  // namespace
}  // namespace hone::train
