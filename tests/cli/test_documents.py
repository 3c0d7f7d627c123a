"""Help, completion and the options page, all made from one table."""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NANO = ROOT / "models/nano"


@pytest.fixture(scope="module")
def table(hone):
    return json.loads(hone("options", "--format", "json").stdout)


def test_program_help_lists_commands(hone, swift, factory):
    for program, verbs in ((hone, ["sft", "pt", "infer", "export", "tokenize", "render", "preview", "doctor", "devices"]),
                           (swift, ["sft", "pt", "infer", "export", "merge-lora"]), (factory, ["train", "export"])):
        done = program("--help")
        assert done.returncode == 0
        for verb in verbs:
            assert re.search(rf"^  {verb} ", done.stdout, re.M), verb
    assert hone().returncode == 2 and factory().returncode == 0


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_help_fits_the_terminal(hone, columns):
    for words in (["--help"], ["sft", "--help"], ["sft", "--help", "all"], ["infer", "--help"], ["options"], ["options", "learning"]):
        text = hone(*words, env={"COLUMNS": columns}).stdout
        longest = max(text.splitlines(), key=len)
        assert len(longest) <= columns, longest


def test_help_begins_with_what_most_runs_need(hone, swift, factory, table):
    names = {row["name"] for row in table} | {row["factory_name"] for row in table}
    for program, verb in ((hone, "sft"), (swift, "sft"), (hone, "pt"), (hone, "rlhf"), (factory, "train"), (hone, "infer"), (hone, "deploy"), (hone, "export")):
        text = program(verb, "--help", env={"COLUMNS": 100}).stdout
        options = re.findall(r"^  --(\w+)", text, re.M)
        assert 10 <= len(options) <= 20 and set(options) <= names, (verb, options)
        assert len(text.splitlines()) < 60 and "Example" in text and f"{verb} --help GROUP" in text
    example = re.search(r"^Example\n(.*?)\n\n", hone("sft", "--help").stdout, re.S | re.M)[1].split()
    assert hone("check-args", "--", *example).returncode == 0


def test_groups_of_options_are_shown_by_name(hone):
    text = hone("sft", "--help", "lora").stdout
    assert re.search(r"^LoRA$", text, re.M) and "--lora_rank" in text and "--learning_rate" not in text
    assert hone("help", "sft", "lora").stdout == text and hone("help", "sft", "all").stdout == hone("sft", "--help", "all").stdout
    wrong = hone("sft", "--help", "nonsense")
    assert wrong.returncode == 2 and "expected all, or one of Model" in wrong.stderr


def test_options_are_searched_by_a_word(hone):
    text = hone("options", "warmup").stdout
    assert "--warmup_ratio" in text and "--lora_rank" not in text and len(text.splitlines()) < 40
    assert "--max_length" in hone("options", "cutoff_len").stdout  # by the name that another program gives it
    lost = hone("options", "learning_rat3")
    assert lost.returncode == 2 and "did you mean learning_rate" in lost.stderr


def test_help_groups_and_defaults(hone, factory):
    text = hone("sft", "--help", "all").stdout
    for group in ("Model", "Data", "Training", "LoRA", "Output"):
        assert re.search(rf"^{group}$", text, re.M)
    assert re.search(r"--lora_alpha REAL\s[^[]*\[32\]", text)
    text = factory("train", "--help", "all").stdout
    assert "--model_name_or_path" in text and "--cutoff_len" in text and "--model_id_or_path" not in text
    assert re.search(r"--lora_alpha REAL\s[^[]*\[auto\]", text)


def test_help_by_word_equals_help_by_flag(hone):
    assert hone("help", "sft").stdout == hone("sft", "--help").stdout
    assert hone("help", "nonsense").returncode == 2


def test_every_option_shows_up_in_help_or_has_a_reason(table, hone):
    text = hone("sft", "--help", "all").stdout
    for row in table:
        if "sft" not in row["commands"].split(", ") and row["commands"] != "every command":
            continue
        if row["status"] == "supported":
            assert f"--{row['name']}" in text
        else:
            assert row["reason"]


def test_table_is_tidy(table):
    for row in table:
        assert row["help"].rstrip().endswith((".", "…", ")")), row["name"]
        assert re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_]*", row["name"])


def test_options_page_is_current(hone):
    assert (ROOT / "docs/options.md").read_text() == hone("options", "--format", "markdown").stdout, "make docs writes it again"


def test_bash_completion(hone, tmp_path):
    script = tmp_path / "hone.bash"
    script.write_text(hone("completion", "bash").stdout)

    def complete(*words):
        line = f'source {script}; COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}; _hone {words[0]}; echo "${{COMPREPLY[@]}}"'
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr, done.stderr
        return done.stdout.split()

    assert "tokenize" in complete("hone", "to")
    assert complete("hone", "sft", "--learning_r") == ["--learning_rate"]
    assert complete("llamafactory-cli", "train", "--model_name_o") == ["--model_name_or_path"]
    assert set(complete("hone", "sft", "--truncation_strategy", '""')) == {"delete", "left", "right", "split"}


@pytest.mark.parametrize("shell, check", [("zsh", ["zsh", "-n"]), ("fish", ["fish", "--no-execute"])])
def test_other_shells_accept_their_script(hone, tmp_path, shell, check):
    done = hone("completion", shell)
    assert done.returncode == 0 and "learning_rate" in done.stdout
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(done.stdout)
    assert subprocess.run([*check, str(script)], capture_output=True).returncode == 0


def test_version(hone):
    for words in (["version"], ["--version"]):
        assert re.match(r"hone \d+\.\d+\.\d+ \(libtorch \d+\.\d+", hone(*words).stdout)


def test_fsdp_is_a_list_in_a_file_too(factory, tmp_path):
    file = tmp_path / "run.yaml"
    for text in ("fsdp: full_shard auto_wrap", "fsdp:\n  - full_shard\n  - auto_wrap"):
        file.write_text(f"model_name_or_path: {NANO}\nstage: sft\ndo_train: true\ndataset: x\ntemplate: qwen\noutput_dir: out\n{text}\n")
        shown = factory("train", file, "--show_config", "true")
        assert shown.returncode == 0 and re.search(r"fsdp +full_shard auto_wrap", shown.stdout), shown.stdout + shown.stderr


def test_a_key_without_effect_is_named_with_its_line(hone, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text(f"model: {NANO}\ndataset: {ROOT / 'data/demo.jsonl'}\nmax_steps: 1\noutput_dir: {tmp_path / 'out'}\nvera_rank: 4\n")
    done = hone("sft", file)
    assert done.returncode == 0 and f"{file}:5: --vera_rank had no effect on this run" in done.stderr, done.stderr
