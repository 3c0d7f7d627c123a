#!/usr/bin/env python3
"""All cases of operators.py in this interpreter's environment, in fresh processes after a failure; prints what differs. Exit 1 if anything does."""
import json
import subprocess
import sys
from pathlib import Path

CASES = Path(__file__).with_name("operators.py")


def run(*words):
    return subprocess.run([sys.executable, "-W", "ignore", CASES, *words], capture_output=True, text=True)


def all_cases(run=run):
    """Name → what is wrong with it ('' when nothing is)."""
    names = json.loads(run("--list").stdout.splitlines()[-1])
    found = {}
    while names:
        done = run(*names)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if not lines:  # the process died in the first case
            lines = [{"case": names[0], "trouble": f"exit {done.returncode}: {done.stderr[-2000:]}"}]
        found.update({line["case"]: line["trouble"] for line in lines})
        names = names[len(lines):]
    return found


if __name__ == "__main__":
    results = all_cases()
    bad = {name: trouble for name, trouble in results.items() if trouble}
    print(f"{len(results) - len(bad)} of {len(results)} operators agree with the CPU")
    print(json.dumps(bad, indent=1)) if bad else None
    sys.exit(1 if bad else 0)
