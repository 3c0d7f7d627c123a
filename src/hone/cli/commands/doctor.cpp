// Reports what is installed, what each component enables, what is wrong and how to fix it.
#include "hone/base/strings/counted.h"
#include "hone/base/terminal.h"
#include "hone/cli/arguments/tools.h"
#include "hone/cli/commands.h"
#include "hone/cli/doctor/check.h"
#include "hone/cli/page.h"
#include "hone/cli/text_table.h"

namespace hone::cli {
namespace {

using doctor::Effect;
using doctor::Severity;
using terminal::Style;
using terminal::styled;

std::string mark_sign(Severity mark) {
  switch (mark) {
    case Severity::good:
      return styled("✓", Style::green);
    case Severity::absent:
      return styled("–", Style::dim);
    case Severity::warning:
      return styled("!", Style::yellow);
    case Severity::bad:
      return styled("✗", Style::red);
  }
  return "";
}

// Prints one section; returns the number of failed checks.
int print_section(std::string_view title, const doctor::Findings& findings) {
  size_t subject_width = 20;
  fmt::print("{}\n", styled(title, Style::bold));
  int bad = 0;
  for (const auto& finding : findings) {
    bad += finding.mark == Severity::bad;
    TextTable row;
    row.add({mark_sign(finding.mark),
             finding.subject + std::string(subject_width - std::min(subject_width, finding.subject.size()), ' '), finding.found});
    fmt::print("{}", row.str(page_width(), 2));
    if (finding.advice.empty()) continue;
    bool quiet = finding.mark == Severity::good || finding.mark == Severity::absent;
    TextTable advice;
    advice.add(
        {std::string(subject_width + 3, ' '), styled((quiet ? "" : "→ ") + finding.advice, quiet ? Style::dim : Style::yellow)});
    fmt::print("{}", advice.str(page_width(), 2));
  }
  fmt::print("\n");
  return bad;
}

void print_variables() {
  auto variables = doctor::known_variables_set();
  fmt::print("{}\n", styled("Environment", Style::bold));
  if (variables.empty()) fmt::print("  none of the variables that hone knows is set\n");
  TextTable table;
  for (const auto& v : variables) {
    auto effect = v.effect == Effect::supported   ? styled("supported", Style::green)
                  : v.effect == Effect::passed_on ? styled("passed on", Style::cyan)
                                                  : styled("no effect", Style::yellow);
    table.add({v.name, terminal::truncate(v.value, 28), effect, v.note});
  }
  fmt::print("{}\n", table.str(page_width(), 2));
}

}  // namespace

int doctor_command(const Options& options) {
  const ToolArguments args(options);
  int bad = print_section("Software", doctor::check_software());
  bad += print_section("Ascend NPUs", doctor::examine_npu());
  bad += print_section("Devices", doctor::examine_devices());
  bad += print_section("Machine", doctor::examine_machine());
  bad += print_section("Hubs", doctor::examine_hubs(*args.network));
  if (*args.env) print_variables();
  fmt::print("{}\n", bad ? styled(fmt::format("{} to fix, marked ✗", counted(bad, "problem")), Style::red)
                         : styled("All well.", Style::green));
  return static_cast<int>(bad ? ExitCode::failure : ExitCode::ok);
}

}  // namespace hone::cli
