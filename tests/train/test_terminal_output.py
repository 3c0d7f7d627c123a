"""What a person sees of a run: its header, a curve with every step of a short one and the last of any, and a terminal that a progress bar and short lines share."""
import json
import os
import pty
import re
import subprocess

from train_testing import ENVIRONMENT, hone_binary


def steps_logged(folder):
    lines = [json.loads(line) for line in (folder / "logging.jsonl").read_text().splitlines()]
    return [int(line["global_step/max_steps"].split("/")[0]) for line in lines if "loss" in line]


def on_a_terminal(words, columns):
    """Everything that the command writes to a terminal so wide."""
    ours, theirs = pty.openpty()
    subprocess.run(["stty", "cols", str(columns), "rows", "24"], stdin=theirs, check=True)
    process = subprocess.Popen([str(word) for word in words], stdin=theirs, stdout=theirs, stderr=theirs, env={**ENVIRONMENT, "TERM": "xterm"})
    os.close(theirs)
    text = b""
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        text += chunk
    assert process.wait(timeout=120) == 0, text[-3000:].decode()
    return text.decode()


def test_the_header_shows_what_was_chosen(sft, tmp_path):
    run = sft(tmp_path / "out", max_steps=3, learning_rate=1e-3, max_length=96)
    for line in ("Device = cpu", "weights in float32", "max_length = 96", "Template = ", "parameters train (lora)"):
        assert line in run.err, run.err
    tokens, trained, longest = (int(number.replace(",", "")) for number in re.search(r"Tokens = ([\d,]+) in an epoch, ([\d,]+) of them trained, ([\d,]+) in the longest row", run.err).groups())
    assert 0 < trained < tokens and 0 < longest <= 96
    assert "lora_A" not in run.err and "lora_B" not in run.err


def test_the_last_step_is_always_logged(sft, tmp_path):
    sft(tmp_path / "asked", max_steps=5, learning_rate=1e-3, logging_steps=3)
    assert steps_logged(tmp_path / "asked") == [1, 3, 5]


# Nobody says how often to log here, and the run is short: every step is logged.
def test_a_terminal_of_80_columns_gets_short_lines_and_a_bar(model_folder, dataset, tmp_path):
    words = [hone_binary(), "sft", "--model", model_folder, "--dataset", dataset, "--max_steps", "3", "--per_device_train_batch_size", "2", "--learning_rate", "1e-3", "--report_to", "none",
             "--output_dir", tmp_path / "out", "--add_version", "false"]
    text = on_a_terminal(words, 80)
    shown = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in re.split(r"[\r\n]+", text)]
    metrics = [line for line in shown if line.startswith("step ")]
    assert all(len(line) <= 80 for line in metrics) and sum(" loss " in line and " lr " in line for line in metrics) == 3 and " train_loss " in metrics[-1], metrics
    bars = [line for line in shown if line.startswith("Train ")]
    assert bars and all(len(line) < 80 and "▕" in line for line in bars) and any("loss" in line and "tok/s" in line for line in bars), bars
    assert "{'loss'" not in text and steps_logged(tmp_path / "out") == [1, 2, 3]
    piped = subprocess.run([str(word) for word in [*words[:-3], tmp_path / "piped", *words[-2:]]], capture_output=True, text=True, env=ENVIRONMENT)
    assert piped.stdout.count("{'loss'") == 3, piped.stdout
