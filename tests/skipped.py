"""Every test that did not run is listed with its reason when the run ends; a reason that skips.txt does not know fails the run."""
import fnmatch
from pathlib import Path

LIST = Path(__file__).with_name("skips.txt")


def known_skips(text):
    """Pairs of patterns, of a test's id and of its reason: `tests/serve/* | node and npm are not installed`."""
    lines = (line.strip() for line in text.splitlines())
    return [tuple(part.strip() for part in line.split(" | ", 1)) for line in lines if line and not line.startswith("#")]


def is_known(test, reason, known):
    return any(fnmatch.fnmatchcase(test, tests) and fnmatch.fnmatchcase(reason, reasons) for tests, reasons in known)


def skipped(reporter):
    """(test id, reason) of each."""
    for report in reporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        yield report.nodeid, reason.removeprefix("Skipped: ")


def pytest_sessionfinish(session):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput"):
        return
    known = known_skips(LIST.read_text())
    if session.exitstatus == 0 and not all(is_known(test, reason, known) for test, reason in skipped(reporter)):
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter):
    known, reasons = known_skips(LIST.read_text()), {}
    for test, reason in skipped(terminalreporter):
        reasons.setdefault((is_known(test, reason, known), reason), []).append(test)
    if reasons:
        terminalreporter.section("skipped")
    for (expected, reason), tests in sorted(reasons.items()):
        more = f" and {len(tests) - 1} more" if len(tests) > 1 else ""
        terminalreporter.line(f"{'' if expected else 'NOT ALLOWED (see tests/skips.txt): '}{tests[0]}{more}: {reason}", red=not expected)
