"""Components include only lower ones."""
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

BELOW = {"base": [], "device": ["base"], "text": ["base"], "io": ["device"], "ops": ["device"], "hub": ["base"], "media": ["text"], "notify": ["hub"],
         "data": ["text", "ops", "hub", "media"], "model": ["text", "io", "ops"], "tuner": ["model"], "optim": ["ops"], "parallel": ["model"],
         "engine": ["tuner"], "train": ["data", "optim", "parallel", "engine", "notify"], "eval": ["train"], "serve": ["data", "engine"], "tinker": ["train", "serve"],
         "cli": ["eval", "tinker"]}


def allowed(component):
    reach = {component}
    for below in BELOW[component]:
        reach |= allowed(below)
    return reach


@pytest.mark.parametrize("component", BELOW)
def test_includes_point_down(component):
    may = allowed(component)
    wrong = []
    for file in (ROOT / "src/hone" / component).rglob("*"):
        if file.suffix not in (".h", ".cpp", ".cu"):
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            found = re.match(r'#include "hone/(\w+)/', line)
            if found and found[1] not in may:
                wrong.append(f"{file.relative_to(ROOT)}:{number}: {line}")
    assert not wrong, "\n".join(wrong)


def test_every_component_is_known():
    folders = {f.name for f in (ROOT / "src/hone").iterdir() if f.is_dir()}
    assert folders <= set(BELOW)


def sources():
    return [f for f in (ROOT / "src/hone").rglob("*") if f.suffix in (".h", ".cpp", ".cu")]


def test_headers_begin_with_what_they_are():
    wrong = [str(f.relative_to(ROOT)) for f in sources() if f.suffix == ".h" and not f.read_text().startswith("// ")]
    assert not wrong, wrong


def test_files_stay_readable():
    wrong = [f"{f.relative_to(ROOT)}: {len(f.read_text().splitlines())} lines" for f in sources() if len(f.read_text().splitlines()) > 500]
    assert not wrong, wrong


def test_folders_introduce_themselves():
    for folder in (ROOT / "src/hone").rglob("*"):
        if folder.is_dir() and not re.match("with(out)?_", folder.name) and any(f.suffix in (".cpp", ".h") for f in folder.iterdir()):
            readme = folder / "README.md"
            assert readme.exists(), folder
            assert len(readme.read_text().splitlines()) <= 10, folder
            assert readme.read_text().startswith("# "), f"{readme}: expected a heading, '# ' and the folder's name, on the first line"


def test_readmes_name_files_that_exist():
    names = {f.name for f in ROOT.glob("src/**/*")} | {f.name for folder in ("tests", "docs", "tools") for f in (ROOT / folder).rglob("*")}
    wrong = [f"{readme.relative_to(ROOT)}: {name}" for readme in ROOT.glob("src/**/README.md")
             for name in re.findall(r"`(?:[\w.-]+/)*([\w-]+[.](?:h|cpp|cuh?|py|md))`", readme.read_text()) if name not in names]
    wrong += [f"{readme.relative_to(ROOT)}: {path}" for readme in ROOT.glob("src/**/README.md")
              for path in re.findall(r"\btests/[\w/-]*\w(?:[.](?:py|cpp))?", readme.read_text()) if not (ROOT / path).exists()]
    assert not wrong, wrong


def test_folders_have_at_most_forty_files():
    wrong = {str(folder.relative_to(ROOT)): count for folder in (ROOT / "src").rglob("*")
             if folder.is_dir() and (count := sum(f.is_file() for f in folder.iterdir())) > 40}
    assert not wrong, wrong


def test_precompiled_headers_define_nothing_of_ours():
    """A compiler cache may hand out a precompiled header made before a comment in it changed. GCC then reads the changed header
    again, and what it defines is defined twice: hone/device/tensor.h has only aliases, which may repeat."""
    repeatable = {"hone/base/pch.h", "hone/device/tensor.h"}
    for header in ROOT.glob("src/**/pch.h"):
        ours = re.findall(r'^#include "([^"]+)"', header.read_text(), re.MULTILINE)
        assert set(ours) <= repeatable, f"{header.relative_to(ROOT)} precompiles {sorted(set(ours) - repeatable)}"
    tensor = (ROOT / "src/hone/device/tensor.h").read_text()
    assert not re.search(r"^\s*(template|inline|constexpr|struct|class|enum)\b", tensor, re.MULTILINE), "hone/device/tensor.h defines something"
