"""Several files of a component are compiled as one (HONE_UNITY), so what two of them keep to themselves may not share a name.

The compiler would say so too, but only when the two happen to meet in one batch: adding any file moves the others."""
import collections
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPONENTS = [folder for parent in (ROOT / "src/hone", ROOT / "tests/unit") for folder in sorted(parent.iterdir()) if folder.is_dir()]

TYPE = re.compile(r"(?:struct|class|enum class|enum)\s+(\w+)")
FUNCTION = re.compile(r"([\w~]+)\s*\((.*?)\)\s*(?:const|noexcept)?\s*(?:\{|;|$)")
VARIABLE = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*(?:=|\{|;|$)")


def parameter_types(parameters: str) -> tuple[str, ...]:
    parts, depth, part = [], 0, ""
    for letter in parameters + ",":
        depth += (letter in "<({") - (letter in ">)}")
        if letter == "," and depth == 0:
            parts.append(part.split("=")[0].strip())
            part = ""
        else:
            part += letter
    return tuple(re.sub(r"\s*\b\w+$", "", text) if " " in text else text for text in parts if text)


def private_names(path: pathlib.Path):
    """(namespace, name, parameter types or None, line) of what the anonymous namespaces of a file define."""
    namespace, private, lines = "", False, path.read_text().split("\n")
    for number, line in enumerate(lines, 1):
        if named := re.match(r"namespace\s+([\w:]+)\s*\{", line):
            namespace = named.group(1)
        elif re.match(r"namespace\s*\{", line):
            private = True
        elif re.match(r"\}\s*// namespace\s*$", line):
            private = False
        elif private and line and not line[0].isspace() and line[0] not in "}#/)" and not line.startswith(("using ", "namespace ", "template", "HONE_", "TEST")):
            statement, end = line, number
            while statement.count("(") > statement.count(")") and end < len(lines):
                statement += " " + lines[end].strip()
                end += 1
            equals, opens = statement.find("="), statement.find("(")
            if found := TYPE.match(statement):
                yield namespace, found.group(1), None, number
            elif opens >= 0 and (equals < 0 or opens < equals) and (found := FUNCTION.search(statement)):
                yield namespace, found.group(1), parameter_types(found.group(2)), number
            elif found := VARIABLE.search(statement):
                yield namespace, found.group(1), None, number


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_private_names_are_unique_in_a_component(component):
    seen = collections.defaultdict(dict)
    for path in sorted(component.rglob("*.cpp")):
        if path.name == "main.cpp" or "/with" in str(path):  # alternatives never meet
            continue
        for namespace, name, parameters, line in private_names(path):
            seen[namespace, name, parameters].setdefault(path, line)
    twice = [f"{namespace}::{name}: " + " and ".join(f"{path.relative_to(ROOT)}:{line}" for path, line in places.items())
             for (namespace, name, _), places in seen.items() if len(places) > 1]
    assert not twice, "give these names that say more, or share them through a header:\n" + "\n".join(twice)


def test_checks_include_their_header():
    """A macro that another file of a batch brings is missing once files move; types are mostly brought by a file's own header."""
    wrong = []
    for file in (ROOT / "src/hone").rglob("*"):
        if file.suffix not in (".h", ".cpp", ".cu", ".cuh") or not re.search(r"\bHONE_CHECK\b", file.read_text()):
            continue
        own = [file, file.with_suffix(".h")]
        if not any(each.exists() and re.search(r'#include "hone/base/error.h"|#define HONE_CHECK', each.read_text()) for each in own):
            wrong.append(str(file.relative_to(ROOT)))
    assert not wrong, wrong
