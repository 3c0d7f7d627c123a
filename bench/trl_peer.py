"""Shared by bench/grpo.py, bench/ppo.py and bench/preference.py: prompts, a model, and trl's trainer in a separate process."""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]


def write_prompts(path, count, longest):
    """Prompts of 8 to `longest` words, as `messages` for hone and as `prompt` for trl."""
    rng = random.Random(0)
    words = [line.split()[0] for line in (ROOT / "README.md").read_text().splitlines() if line.split()]
    with open(path, "w") as file:
        for _ in range(count):
            prompt = [{"role": "user", "content": " ".join(rng.choices(words, k=rng.randint(8, longest)))}]
            file.write(json.dumps({"prompt": prompt, "messages": prompt}) + "\n")


def make_model(size, folder):
    subprocess.run([sys.executable, ROOT / "tools/make_model.py", "--family", "qwen2", "--size", size, "--out", folder], check=True, capture_output=True)


def logged_steps(folder):
    log = pathlib.Path(f"{folder}/logging.jsonl")
    lines = log.read_text().splitlines(keepends=True) if log.exists() else []
    return [step for line in lines if line.endswith("\n") and "grad_norm" in (step := json.loads(line))]


def run_hone_steps(command, folder):
    """Runs hone and returns the logged lines of its steps. Each gets `processor_seconds`, of all threads since the start, as seen within 10 ms after it was written."""
    seen = []
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen([str(argument) for argument in command], stdout=subprocess.DEVNULL, stderr=errors)
        while process.poll() is None:
            time.sleep(0.01)
            fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            seen += [used] * (len(logged_steps(folder)) - len(seen))
        if process.returncode:
            errors.seek(0)
            sys.exit(errors.read()[-2000:])
    steps = logged_steps(folder)
    return [{**step, "processor_seconds": used} for step, used in zip(steps, seen + [used] * len(steps))]


def run_child(script, *child, environment=None):
    """The RESULT line of the script's own `--child` process; None if there is none, after printing its error."""
    done = subprocess.run([sys.executable, script, *sys.argv[1:], "--child", *child], capture_output=True, text=True, env=environment)
    result = next((json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("RESULT ")), None)
    if not result:
        print("trl: not measured\n" + done.stderr[-1500:])
    return result


def step_clock():
    """A list that gets the seconds of each step, and the callback of a trainer that fills it."""
    from transformers import TrainerCallback

    times = []

    class Clock(TrainerCallback):
        def on_step_begin(self, *_, **__):
            self.began = time.perf_counter()

        def on_step_end(self, *_, **__):
            times.append(time.perf_counter() - self.began)

    return times, Clock()


def print_ratio(ours, theirs, what):
    """`theirs`: seconds of trl's steps, of which the first is warm-up."""
    mean = sum(theirs[1:]) / len(theirs[1:])
    print(f"trl   {mean:7.3f} s a step of {what}")
    print(f"ratio {mean / ours:7.2f}")
