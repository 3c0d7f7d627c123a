"""Several hundred command lines and YAML files in the forms of the peers' guides: each parses to the expected values."""
import shlex

import pytest

from compat_testing import entries

UNBUILT = "is not in this version of hone"


def plain(value):
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def problem_of(entry, answer):
    """None, or what is wrong."""
    if UNBUILT in answer.get("error", ""):
        return None if answer["code"] == 2 else f"exit code {answer['code']}"
    if "error" in entry:
        if "error" not in answer:
            return f"accepted, expected an error about {entry['error']}"
        return None if entry["error"] in answer["error"] + answer["hint"] else f"another error: {answer['error']}"
    if "error" in answer:
        # An option that is refused says what to use instead; that is an answer too, for the options that the table calls refused.
        return None if "is not available" in answer["error"] and answer["hint"] else answer["error"]
    for name, wanted in entry.get("expect", {}).items():
        found = answer["values"].get(name, "absent")
        if plain(found) != plain(wanted):
            return f"{name} is {found!r}, expected {wanted!r}"
    for name, wanted in entry.get("environment", {}).items():
        if answer["environment"].get(name) != wanted:
            return f"{name} is {answer['environment'].get(name)!r}, expected {wanted!r}"
    return None


@pytest.fixture(scope="module")
def answered(resolve):
    corpus = entries()
    return list(zip(corpus, resolve([resolve.words(i, entry) for i, entry in enumerate(corpus)])))


def test_it_is_a_corpus():
    commands = [entry["command"] + str(entry.get("files")) for entry in entries()]
    assert len(set(commands)) >= 300


def test_every_command_line_resolves_to_what_it_says(answered):
    problems = [f"{entry['command']}\n    {problem}" for entry, answer in answered if (problem := problem_of(entry, answer))]
    assert not problems, f"{len(problems)} of {len(answered)}:\n" + "\n".join(problems[:20])


def test_most_of_it_is_not_refused(answered):
    refused = [entry["command"] for entry, answer in answered if "error" in answer and "error" not in entry and UNBUILT not in answer["error"]]
    assert len(refused) < len(answered) / 5


def test_every_flag_of_both_peers_occurs(answered, hone):
    page = hone("options", "--format", "compatibility").stdout
    names = {line.split("`")[1] for part in page.split("\n## ")[1:3] for line in part.splitlines() if line.startswith("| `")}
    used = set()
    for entry, _ in answered:
        text = " ".join([entry["command"], *entry.get("files", {}).values()])
        used |= {word.lstrip("-").split("=")[0].rstrip(":").replace("-", "_") for word in text.replace("\n", " ").split()}
    assert not sorted(names - used)


def test_the_native_command_resolves_to_the_same(answered, resolve):
    done = [(entry, answer) for entry, answer in answered if "error" not in answer]
    again = resolve([shlex.split(answer["native"]) for _, answer in done])
    problems = []
    for (entry, answer), native in zip(done, again):
        if "error" in native:
            problems.append(f"{entry['command']}\n    {answer['native']}\n    {native['error']}")
            continue
        differing = [name for name in answer["matter"] if name in native["values"] and name != "config"
                     and native["values"][name] != answer["values"][name] and not entry["command"].startswith("NPROC")]
        if differing:
            problems.append(f"{entry['command']}\n    {answer['native']}\n    " + ", ".join(f"{n}: {answer['values'][n]!r} became {native['values'][n]!r}" for n in differing))
    assert not problems, f"{len(problems)} of {len(done)}:\n" + "\n".join(problems[:15])
