"""What bench/grpo.py and bench/ppo.py share: prompts, a model, and trl's trainer in a process of its own."""
import json
import pathlib
import random
import subprocess
import sys

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


def steps_of_hone(words, folder):
    """Runs hone with these words and gives the logged lines of its steps."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    lines = map(json.loads, pathlib.Path(f"{folder}/logging.jsonl").read_text().splitlines())
    return [line for line in lines if "grad_norm" in line]


def result_of_child(script, *child, environment=None):
    """What the script's own `--child` process printed behind RESULT; None, with its error shown, where it printed nothing."""
    done = subprocess.run([sys.executable, script, *sys.argv[1:], "--child", *child], capture_output=True, text=True, env=environment)
    result = next((json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("RESULT ")), None)
    if not result:
        print("trl: not measured\n" + done.stderr[-1500:])
    return result


def print_ratio(ours, theirs, what):
    """`theirs` are the seconds of trl's steps; the first one warms up."""
    mean = sum(theirs[1:]) / len(theirs[1:])
    print(f"trl   {mean:7.3f} s a step of {what}")
    print(f"ratio {mean / ours:7.2f}")
