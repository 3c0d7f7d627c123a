"""An option that the table calls honoured is asked for by some code; otherwise it would silently do nothing."""
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Read by name elsewhere than in a command: while parsing, or before it runs.
WHILE_PARSING = {"ignore_args_error", "load_args", "load_data_args"}


def names_in_code():
    lists = ("completion.cpp", "checkpoint_args.cpp")  # they list names without acting on them
    files = [f for f in (ROOT / "src/hone/cli").rglob("*.cpp") if f.parent.name != "table" and f.name not in lists]
    return set(re.findall(r'"(\w+)"', "".join(f.read_text() for f in files)))


def test_honoured_options_are_read(hone):
    rows = json.loads(hone("options", "--format", "json").stdout)
    read = names_in_code() | WHILE_PARSING
    unread = sorted({row["name"] for row in rows if row["status"] == "honoured"} - read)
    assert not unread, f"honoured, yet nothing reads them: {unread}"
