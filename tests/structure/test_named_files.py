"""Source files that comments, READMEs and docs name exist, and so do the names in the code of docs/architecture.md."""
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRACKED = [Path(line) for line in subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()]
NAMES = {path.name for path in TRACKED}

# Headers of others.
FOREIGN = {"arm_sve.h", "foreach_target.h", "jpeglib.h", "nccl.h", "omp.h", "ProcessGroupGloo.hpp", "sched.h", "types.h"}

FILE = re.compile(r"(?<![\w./<*-])((?:[\w-]+/)*[\w-]+\.(?:h|hpp|cpp|cuh|cu))\b(?!\()")


def prose(path):
    """Numbered lines of a file that are read by people: comments, or the text of a page."""
    marks = {".md": "", ".py": "#", ".cmake": "#", ".txt": "#", ".sh": "#"}
    mark = marks.get(path.suffix, "//")
    for number, line in enumerate((ROOT / path).read_text(errors="replace").splitlines(), 1):
        if mark in line and "#include" not in line:
            yield number, line[line.index(mark):]


def exists(name):
    return name in NAMES if "/" not in name else any(path.as_posix().endswith("/" + name) or path.as_posix() == name for path in TRACKED)


def test_named_source_files_exist():
    read = [path for path in TRACKED if path.suffix in {".h", ".cpp", ".cu", ".cuh", ".py", ".md", ".cmake", ".txt", ".sh"}
            and path.parts[0] != "data" and path.name != "CHANGELOG.md"]
    found = [(path, number, name) for path in read for number, line in prose(path) for name in FILE.findall(line)]
    assert len(found) > 100, "the search finds what it should check"
    wrong = [f"{path}:{number}: {name}" for path, number, name in found
             if not exists(name) and Path(name).name not in FOREIGN and "NAME" not in name]
    assert not wrong, "\n".join(wrong)


def test_names_of_the_architecture_page_are_in_the_tree():
    """Types, functions and variables between backquotes."""
    page = (ROOT / "docs/architecture.md").read_text()
    page = re.sub(r"```.*?```", "", page, flags=re.S)
    names = {part for code in re.findall(r"`([^`]+)`", page) for part in re.findall(r"[A-Za-z_]\w*", code)}
    sources = "\n".join((ROOT / path).read_text(errors="replace") for path in TRACKED if path.parts[0] in {"src", "python"} and path.suffix in {".h", ".cpp", ".py"})
    known = set(re.findall(r"[A-Za-z_]\w*", sources))
    assert len(names) > 15 and names <= known, names - known
