#include "hone/train/loop/stop_signal.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string_view>

#include "hone/base/error.h"

namespace hone::train {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};
std::array<struct sigaction, kSignals.size()> g_previous;
std::atomic<int> g_received{0};
static_assert(std::atomic<int>::is_always_lock_free, "a handler may touch it only then");

// Only async-signal-safe calls here: an atomic exchange, write and _exit.
extern "C" void note_signal(int number) {
  if (g_received.exchange(number) != 0) ::_exit(number == SIGINT ? static_cast<int>(ExitCode::interrupted) : 128 + number);
  static constexpr std::string_view kNotice = "\nstopping: saving a checkpoint after this step; a second signal exits at once\n";
  [[maybe_unused]] auto written = ::write(2, kNotice.data(), kNotice.size());
}

}  // namespace

StopSignal::StopSignal() {
  g_received = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &g_previous[i]);
  if (g_previous[3].sa_handler == SIG_IGN)
    ::sigaction(SIGHUP, &g_previous[3], nullptr);  // nohup: a closing terminal is not a request to stop
}

StopSignal::~StopSignal() {
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &g_previous[i], nullptr);
  ::signal(SIGUSR1, SIG_IGN);  // a signal after everything is saved must not interrupt pending writes
}

Stop StopSignal::requested() {
  int number = g_received.load();
  return number == 0 ? Stop::none : number == SIGINT ? Stop::interrupt : Stop::terminate;
}

}  // namespace hone::train
