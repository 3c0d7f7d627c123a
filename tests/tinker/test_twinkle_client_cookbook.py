"""Scripts of Twinkle's cookbook/client as published, with Twinkle's own client, each to its end at small size, where HONE_TWINKLE_COOKBOOK names the folder cookbook of a checkout."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tinker_testing import ALICE, MODEL, ROOT, SDK, TinkerServer

COOKBOOK = os.environ.get("HONE_TWINKLE_COOKBOOK", "")
pytestmark = pytest.mark.skipif(not COOKBOOK, reason="HONE_TWINKLE_COOKBOOK names no folder")
LOCAL = {"f'ms://{base_model}'": "base_model", "f'ms://{BASE_MODEL}'": "BASE_MODEL", "Qwen3_5Template": "Template"}  # the model is a folder, of another family
COGNITION = {"ms://swift/self-cognition": "cognition.jsonl", "range(500)": "range(8)"}
PAIRS = {"ms://hjh0119/shareAI-Llama3-DPO-zh-en-emoji": "pairs.jsonl", "range(5000)": "range(8)", "range(100)": "range(8)"}
MATH = {"'ms://modelscope/gsm8k', subset_name='main', split='train', ": "'math.jsonl', ", "DATA_NUM = 2000": "DATA_NUM = 4", "MAX_NEW_TOKENS = 4096": "MAX_NEW_TOKENS = 8", "MAX_NEW_TOKENS = 2048": "MAX_NEW_TOKENS = 8",
        "max_length=4096": "max_length=200", "max_length=2048": "max_length=200", "MAX_STEPS = 1000": "MAX_STEPS = 2", "MAX_STEPS = 100": "MAX_STEPS = 2"}
# What is written smaller or local in the script, and what it says at its end.
SCRIPTS = {
    "tinker/lora.py": ({}, "Published checkpoint"),
    "tinker/self_cognition.py": (COGNITION, "Saved checkpoint to tinker://"),
    "tinker/sample.py": ({"twinkle://20260409_202355-Qwen_Qwen3_5-4B-d0360fdb/sampler_weights/20260409_202639": "{path}"}, "Responses:"),
    "tinker/short_math_grpo.py": (MATH, "Saved final checkpoint"),
    "tinker/dpo.py": (PAIRS, "Saved checkpoint: tinker://"),
    "twinkle/self_cognition.py": (COGNITION, "Saved checkpoint"),
    "twinkle/sample.py": ({"twinkle://20260301_142318-Qwen_Qwen3-4B-199d2cdb/weights/twinkle-lora-0": "{path}"}, "Sequence 1"),
    "twinkle/short_math_grpo.py": (MATH, "checkpoint"),
    "twinkle/dpo.py": (PAIRS, "Saved checkpoint"),
    "twinkle/embedding.py": ({"f'ms://{BASE_MODEL}'": "BASE_MODEL"}, "Embedding training finished"),
    "twinkle/multi_turn_rollout.py": ({"env_name=OPENENV_NAME": "env_cls='own_game.Game'", "MAX_NEW_TOKENS = 512": "MAX_NEW_TOKENS = 8", "f'ms://{BASE_MODEL}'": "BASE_MODEL"}, "example finished"),
}
STAND_INS = {"dotenv": "def load_dotenv(*_, **__): pass", "modelscope": "from transformers import AutoTokenizer", "swanlab": "", "grpc_reflection/v1alpha/reflection": "",
             "own_game": "class Game:\n    def __init__(self, **_): pass\n    def reset(self): return {'observation': 'Hit or stand?'}\n    def step(self, action): return {'observation': 'The game is over.', 'reward': 1.0, 'done': True}\n"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A server, and a folder with the data and the packages that the scripts import besides Twinkle's."""
    folder = tmp_path_factory.mktemp("cookbook")
    (folder / "models").symlink_to(ROOT / "models")
    for name, text in STAND_INS.items():
        file = folder / "packages" / name / "__init__.py"
        file.parent.mkdir(parents=True)
        file.write_text(text)
    for name, row in {"cognition": {"query": "Who are you?", "response": "I am {{NAME}} of {{AUTHOR}}.", "tag": "en"}, "pairs": {"prompt": "Say hello.", "answer_zh": "Hello!", "answer_en": "Go away."},
                      "math": {"question": "What is 1 + 1?", "answer": "It is 2.\n#### 2"}}.items():
        (folder / f"{name}.jsonl").write_text(8 * (json.dumps(row) + "\n"))
    server = TinkerServer(folder / "server")
    client = server.service().create_lora_training_client(base_model=MODEL, rank=4).result()
    path = client.save_weights_for_sampler("saved").result().path.replace("tinker://", "twinkle://")
    yield server, folder, path
    assert server.stop() == 0, server.log()


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(place, name):
    server, folder, path = place
    smaller, end = SCRIPTS[name]
    text = Path(COOKBOOK, "client", name).read_text()
    for large, small in {**smaller, **LOCAL}.items():
        text = text.replace(large, small.replace("{path}", path))
    script = folder / name.replace("/", "_")
    script.write_text(text)
    paths = [folder / "packages", ROOT / ".venv/twinkle", ROOT / ".venv/tinker-0.16.1", SDK]
    done = subprocess.run([sys.executable, script], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "TWINKLE_MODEL_ID": MODEL, "TWINKLE_SERVER_URL": server.url, "TWINKLE_SERVER_TOKEN": ALICE,
                               "HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0 and end in done.stdout, done.stdout[-4000:]
