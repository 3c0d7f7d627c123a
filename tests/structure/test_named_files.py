"""Source files that comments, READMEs and docs name exist, and docs/architecture.md speaks of what its links hold."""
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRACKED = [Path(line) for line in subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()]
NAMES = {path.name for path in TRACKED}

# Headers of others.
FOREIGN = {"arm_sve.h", "foreach_target.h", "jpeglib.h", "json.hpp", "nccl.h", "omp.h", "ProcessGroupGloo.hpp", "sched.h", "types.h"}

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


def linked_text(paragraph):
    """The files that a paragraph of a page in docs links to; of a folder, all of its files, of its README, those next to it."""
    for link in re.findall(r"\]\(([^)#]+)\)", paragraph):
        target = ROOT / "docs" / link
        files = target.parent.glob("*.*") if target.name == "README.md" else [target] if target.is_file() else target.rglob("*.*")
        for file in files:
            if file.is_file():
                yield file.read_text(errors="replace")


def test_names_of_the_architecture_page_are_in_the_files_it_links_to():
    """Types, functions and variables between backquotes, paragraph by paragraph."""
    wrong, count = [], 0
    for paragraph in (ROOT / "docs/architecture.md").read_text().split("\n\n"):
        names = {name for code in re.findall(r"`([^`]+)`", paragraph) for name in re.findall(r"[A-Za-z_]\w+", code)}
        count += len(names)
        known = set(re.findall(r"[A-Za-z_]\w+", "\n".join(linked_text(paragraph)))) if names else set()
        wrong += sorted(names - known)
    assert count > 15 and not wrong, wrong
