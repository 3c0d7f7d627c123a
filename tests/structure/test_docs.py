"""Every command line in the documentation parses; every `make` target, file and section that it names exists."""
import re
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAMS = ("hone", "swift", "megatron", "llamafactory-cli", "lmf", "accelerate")


def pages():
    return [ROOT / "README.md", ROOT / "README.zh.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def words_of(line):
    """The words of the first command of a line: up to a pipe, a redirection, a separator or a comment. None while a quotation is open."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>&;")
    lexer.whitespace_split, lexer.commenters = True, ""
    words = []
    try:
        for word in lexer:
            if word.startswith("#") or set(word) <= set("|<>&;"):
                break
            words.append(word)
    except ValueError:
        return None
    return words


def command_lines():
    """The commands of shell blocks, each as its words; lines that continue or hold an open quotation are joined."""
    for page in pages():
        if not page.exists():
            continue
        for block in re.findall(r"```(?:bash|sh|shell|console)\n(.*?)```", page.read_text(), re.S):
            pending = ""
            for line in block.replace("\\\n", " ").splitlines():
                pending = f"{pending}\n{line}" if pending else line.strip().removeprefix("$ ")
                words = words_of(pending)
                if words is None:
                    continue
                pending = ""
                if words:
                    yield page.name, shlex.join(words)
            assert not pending, f"{page.name}: a quotation stays open: {pending}"


LINES = list(command_lines())


def is_ours(line):
    words = [w for w in shlex.split(line) if not re.match(r"[A-Z_0-9]+=", w)]
    return bool(words) and words[0].split("/")[-1] in PROGRAMS


def is_abbreviated(line):
    return "…" in line or "..." in line


def test_there_are_command_lines():
    assert any(is_ours(line) for _, line in LINES)


@pytest.mark.parametrize("page, line", [pair for pair in LINES if is_ours(pair[1]) and not is_abbreviated(pair[1])])
def test_command_line_parses(hone, page, line):
    done = hone("check-args", "--", *shlex.split(line), cwd=ROOT)
    assert done.returncode == 0, f"{page}: {line}\n{done.stderr}"


@pytest.mark.parametrize("page, line", [pair for pair in LINES if pair[1].startswith("make ")])
def test_make_target_exists(page, line):
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.M))
    for word in shlex.split(line)[1:]:
        if "=" not in word and not word.startswith("-"):
            assert word in targets, f"{page}: {line}"


def text_of(page):
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)


def anchors(page):
    """As GitHub makes them from headings."""
    titles = re.findall(r"^#+ (.*)$", text_of(page), re.M)
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


def test_links_lead_somewhere():
    wrong, count = [], 0
    for page in sorted(ROOT / name for name in subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()):
        for link in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
            if "://" in link:
                continue
            count += 1
            name, _, anchor = link.partition("#")
            target = page.parent / name if name else page
            if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
                wrong.append(f"{page.relative_to(ROOT)}: {link}")
    assert count > 100 and not wrong, wrong


@pytest.mark.parametrize("page", sorted(page.relative_to(ROOT) for page in [ROOT / "README.zh.md", *(ROOT / "docs").glob("*.zh.md")]))
def test_chinese_pages_have_the_commands_of_the_english_ones(page):
    """Those are run as printed by other tests, so that these work too."""
    def blocks(path):
        return [re.sub(r"\s+#.*", "", block, flags=re.M) for block in re.findall(r"```(?:bash|json|yaml)\n(.*?)```", path.read_text(), re.S)]

    assert blocks(ROOT / page) == blocks(ROOT / str(page).replace(".zh", ""))


@pytest.mark.parametrize("page", sorted(page.name for page in (ROOT / "docs").glob("*.zh.md")))
def test_chinese_pages_say_what_the_english_ones_say(page):
    """As many sections and table rows, the same options, variables and functions, and every number."""
    english, chinese = (re.sub(r"```.*?```", "", (ROOT / "docs" / name).read_text(), flags=re.S) for name in (page.replace(".zh", ""), page))
    for mark in ("\n## ", "\n|"):
        assert english.count(mark) == chinese.count(mark), mark

    def names(text):
        return {name for code in re.findall(r"`([^`]+)`", text) for name in re.findall(r"--[a-z][\w-]*|[A-Z][A-Z0-9]*_[A-Z0-9_]+|[a-z]\w*_\w+", code)}

    def numbers(text):
        return set(re.findall(r"\d[\d,.]*\d|\d", re.sub(r"`[^`]+`", "", text)))

    assert names(english) == names(chinese)
    assert numbers(english) <= numbers(chinese)
