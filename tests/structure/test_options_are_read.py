"""The name of an option occurs only in the table and in one typed field of cli/arguments. So a misspelled name does not compile, and an
option that the table calls supported cannot silently do nothing."""
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLI = ROOT / "src/hone/cli"
# Asked for by name while the command line is parsed, before there are any options.
WHILE_PARSING = {"ignore_args_error"}
# Two rows of these names differ in kind: a flag of `download` and a list elsewhere, a list of `rlhf` and a choice of `sft`.
TWO_KINDS = {"dataset", "loss_type"}
# Files that handle options as such, whatever they are called.
BY_NAME = {
    "options.cpp": "the options themselves", "options.h": "the options themselves", "arguments/arg.h": "what a field does", "arguments/arg.cpp": "what a field does",
    "parsing/parse.cpp": "sets what was typed", "parsing/option_assigner.cpp": "sets what was typed", "parsing/checkpoint_args.cpp": "lists what args.json may set", "parsing/resolve_auto.cpp": "shows what auto became",
    "commands/convert_config.cpp": "compares all options of two front ends", "run.cpp": "names those that had no effect",
}
GETTERS = r"has|is_set|text|real|integer|flag|list|reals|json|required|source|setting|has_option|display_name"
KINDS = {"true or false": "bool", "an integer": "int64_t", "a size": "int64_t", "a number": "double", "text": "std::string", "a path": "std::string", "one of": "std::string",
         "a list of words": "std::vector<", "JSON": "Json"}


def sources():
    return {str(path.relative_to(CLI)): path.read_text() for pattern in ("*.cpp", "*.h") for path in CLI.rglob(pattern)}


def fields():
    """(option, C++ type, field) of every typed field."""
    found = []
    for path in sorted((CLI / "arguments").glob("*.h")):
        found += [(option, kind, field) for kind, field, option in re.findall(r'^  Arg<(.+)> (\w+)\{\*this, "(\w+)"\};', path.read_text(), re.M)]
    return found


def test_every_supported_option_has_one_field_of_its_kind(hone):
    rows = [row for row in json.loads(hone("options", "--format", "json").stdout)]
    kinds = {}
    for row in rows:
        kinds.setdefault(row["name"], set()).add(next(kind for words, kind in KINDS.items() if row["type"].startswith(words)))
    bound = [option for option, _, _ in fields()]
    assert not [option for option, _, _ in fields() if option not in kinds], "a field of an option that the table does not have"
    supported = {row["name"] for row in rows if row["status"] == "supported"} - WHILE_PARSING
    assert not sorted(supported - set(bound)), "supported, yet no field in src/hone/cli/arguments"
    assert {option for option in bound if bound.count(option) > 1} == TWO_KINDS, "an option has one field"
    wrong = [(option, kind) for option, kind, _ in fields() if not any(kind.startswith(known) for known in kinds[option])]
    assert not wrong, f"a field's type is not that of its option: {wrong}"


def test_every_field_is_read():
    code = "".join(text for path, text in sources().items() if not path.startswith(("arguments/", "table/")))
    read = set(re.findall(r"[.](\w+)", code))
    unread = sorted(option for option, _, field in fields() if field not in read)
    assert not unread, f"no code reads these fields: {unread}"


def test_no_option_is_read_by_name(figure):
    strangers = []
    for path, text in sources().items():
        calls = re.findall(rf"\b\w*(?:options|command|native)_?[.](?:{GETTERS})\(", text) + re.findall(r'[.](?:set|resolve|leave_undecided)\("', text)
        if calls and path not in BY_NAME:
            strangers += [f"{path}: {calls[0]}"]
    figure(f"{len(fields())} typed fields")
    assert not strangers, f"{strangers}; read a field of src/hone/cli/arguments instead"
    assert not [path for path in BY_NAME if path not in sources()]


def test_every_field_that_a_component_complains_about_is_an_option(hone):
    """Components check their configs and name fields in backquotes; cli knows the option of each."""
    names = {row["name"] for row in json.loads(hone("options", "--format", "json").stdout)}
    known = re.findall(r'\{"([\w.]+)", "(\w+)"\}', (CLI / "dialect_flags.cpp").read_text().split("kFieldOptions", 1)[1].split("};", 1)[0])
    assert known and not [option for _, option in known if option not in names]
    below = {path: path.read_text() for path in (ROOT / "src/hone").rglob("*.cpp") if CLI not in path.parents}
    named = {(path, field) for path, source in below.items() for text in re.findall(r'"(?:[^"\\\n]|\\.)*"', source) for field in re.findall(r"`([\w.]+)`", text)}
    fields = {(path.name, field) for path, field in named if '"hone/base/config_error.h"' in below[path]}
    assert len(fields) > 20
    strangers = sorted((path, field) for path, field in fields if field not in names and field not in dict(known))
    assert not strangers, f"{strangers}: name the option of each in src/hone/cli/dialect_flags.cpp"
    assert not sorted(field for field, _ in known if field not in {name for _, name in named}), "no component names these"


def test_only_the_command_line_knows_what_a_setting_is_called_there(hone):
    """Components name settings, not flags; commands that a user can run as they are shown stay commands."""
    names = {row["name"] for row in json.loads(hone("options", "--format", "json").stdout)}
    commands = re.compile(r"(?:hone|swift|\{\}) [a-z]+ [^,;]*$")
    shows = {"train/reports/run_summary.cpp", "serve/schema/field_table.cpp"}  # commands for the user's shell; a page about the server
    strangers = []
    for path in (ROOT / "src/hone").rglob("*.cpp"):
        if CLI in path.parents or str(path.relative_to(ROOT / "src/hone")) in shows:
            continue
        code = "\n".join(line for line in path.read_text().splitlines() if not line.lstrip().startswith("//"))
        for text in re.findall(r'"(?:[^"\\\n]|\\.)*"', code):
            strangers += [f"{path.name}: {flag[0]}" for flag in re.finditer(r"--(\w+)", text) if flag[1] in names and not commands.search(text[:flag.start()] + " ")]
    assert not strangers, f"{strangers}: write `name` in place of --name"
