"""The commands of README.md and of the pages that need no hub, server or card, run as printed, in their order, in a folder like a fresh checkout.
docs/models.md, docs/serving.md and docs/your-data.md are run by tests/hub/test_recipe.py, docs/multimodal.md by tests/vision/test_cookbook.py, docs/npu.md by
tests/npu/test_documented.py, docs/tinker.md by tests/tinker."""
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ["README.md", *(f"docs/{name}.md" for name in ("agents", "command-line", "data", "distillation", "distributed", "evaluation", "planner", "preference", "quantization", "reinforcement",
                                                       "reward-models", "sampling", "tasks", "training"))]
ELSEWHERE = {"docs/models.md", "docs/multimodal.md", "docs/npu.md", "docs/serving.md", "docs/tinker.md", "docs/your-data.md"}
PROGRAM = re.compile(r"(?:[A-Z_]+=\S+ )*(hone|swift|megatron|llamafactory-cli|accelerate) (\S+)")
LARGER_MACHINES = re.compile(r"NNODES=2|NPROC_PER_NODE=8")  # and models to match: those lines are parsed by test_docs.py alone
# Pages about something else than training: a step of it shows that the line works.
ONE_STEP = {"docs/command-line.md", "docs/distributed.md"}


def commands(page):
    for block in re.findall(r"```bash\n(.*?)```", (ROOT / page).read_text(), re.S):
        yield from (line for line in block.splitlines() if PROGRAM.match(line) and "…" not in line and not LARGER_MACHINES.search(line))


def test_no_page_is_left_out():
    with_commands = {str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md") if not page.name.endswith(".zh.md") and any(commands(page.relative_to(ROOT)))}
    assert with_commands == set(PAGES[1:]) | ELSEWHERE


def shortened(line):
    """The line with one step of training; a redirection or comment would have to stay after it."""
    program, command = PROGRAM.match(line).groups()
    if command == "sft" and "--show_config" not in line:
        return f"{line} --max_steps 1"
    return f"{line} max_steps=1" if command in ("train", "launch") else line


@pytest.fixture
def checkout(tmp_path):
    for name in ("models", "data", "cookbook"):
        (tmp_path / name).symlink_to(ROOT / name)
    rows = (ROOT / "data/demo.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "a.jsonl").write_text("".join(rows[:8]))
    (tmp_path / "b.jsonl").write_text("".join(rows[8:12]))
    (tmp_path / "run.yaml").write_text("model: models/nano\ndataset: a.jsonl\n")
    (tmp_path / "run.json").write_text('{"model": "models/nano", "dataset": "a.jsonl"}')
    for folder in (".local/share/bash-completion/completions", ".config/fish/completions"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_page_works(hone, page, checkout):
    # As people run them, whatever the other workers do.
    environment = {**os.environ, "NO_COLOR": "1", "OMP_NUM_THREADS": "2", "HOME": str(checkout), "PATH": f"{hone.path.parent}:{os.environ['PATH']}"}
    ran = 0
    for line in commands(page):
        done = subprocess.run(["bash", "-c", shortened(line) if page in ONE_STEP else line], cwd=checkout, env=environment, input="Who are you?\nexit\n", capture_output=True, text=True, timeout=300)
        allowed = (0, 1) if PROGRAM.match(line)[2] == "doctor" else (0,)  # doctor's verdict is about the machine
        assert done.returncode in allowed, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        ran += 1
    assert ran >= 2
