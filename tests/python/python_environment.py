"""Builds the wheel `hone` and a separate environment with torch."""
import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("HONE_BIN", ROOT / "build/bin/hone"))
NANO = ROOT / "models/nano"
RAY = dict(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled", RAY_DEDUP_LOGS="0", RAY_worker_niceness="0")  # others wait for these
ROWS = 40
PACKAGES = Path(next(path for path in sys.path if path.endswith("site-packages")))


def run(*words, **settings):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=600, **settings)
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def own_environment(**more):
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LOG_LEVEL")}
    return {**kept, "NO_COLOR": "1", "HF_HUB_OFFLINE": "1", **more}


def make_wheel(folder):
    """Only the module is compiled: libhone comes out of the build folder. Its paths are always the same, for the compiler's cache."""
    prefix = BINARY.parents[1] / "prefix"
    run("cmake", "--install", BINARY.parents[1], "--prefix", prefix)
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", folder, "-C", f"cmake.define.HONE_PREFIX={prefix}", ROOT,
        env=own_environment(PYTHONPATH=str(ROOT / ".venv/wheel")))


def make_environment(folder, wheel):
    """A fresh environment in which torch, pyarrow and what they need are those of the tests, by links; pip then installs the wheel."""
    venv.create(folder / "venv", with_pip=False)
    site = next((folder / "venv/lib").glob("python3*/site-packages"))
    for name in ("torch", "torchgen", "functorch", "numpy", "numpy.libs", "pyarrow", "pyarrow.libs", "typing_extensions.py", "sympy", "mpmath", "networkx", "jinja2",
                 "markupsafe", "fsspec", "filelock", "torch.libs", "nvidia", "triton", "setuptools"):
        if (PACKAGES / name).exists():
            (site / name).symlink_to(PACKAGES / name)
    run(sys.executable, "-m", "pip", "--python", folder / "venv/bin/python", "install", "--no-deps", "--no-index", wheel, env=own_environment())


def make_small_model(folder, **experts):
    """Four layers of random weights with the demo's tokenizer; with `experts`, a mixture of them."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

    shape = dict(vocab_size=2048, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=512,
                 eos_token_id=2)
    torch.manual_seed(0)
    model = Qwen3MoeForCausalLM(Qwen3MoeConfig(**shape, **experts)) if experts else Qwen3ForCausalLM(Qwen3Config(**shape, tie_word_embeddings=True))
    model.float().save_pretrained(folder)
    for file in NANO.iterdir():
        if "token" in file.name or file.suffix == ".jinja":
            shutil.copy2(file, folder)


def write_rows(file, make):
    """Rows of a question and its answer, as `make` has them."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(make(f"What is {i} plus {i * i}?", f"{i} plus {i * i} is \\boxed{{{i + i * i}}}.")) + "\n" for i in range(ROWS)))


def fill_hub(folder):
    """A cache of ModelScope's with what the guide's scripts and the cookbook's share: small models and datasets under the large ones' names."""
    for name in ("Qwen2___5-7B-Instruct", "Qwen3-0___6B"):
        shutil.copytree(NANO, folder / "models/Qwen" / name)
    make_small_model(folder / "models/Qwen/Qwen3-4B")
    write_rows(folder / "datasets/hjh0119/shareAI-Llama3-DPO-zh-en-emoji/train.jsonl", lambda question, answer: {"prompt": question, "answer_zh": answer, "answer_en": "No idea."})
    write_rows(folder / "datasets/modelscope/gsm8k/main/train.jsonl", lambda question, answer: {"question": question, "answer": answer})
    (folder / "datasets/modelscope/gsm8k/README.md").write_text("as a hub has it\n")
