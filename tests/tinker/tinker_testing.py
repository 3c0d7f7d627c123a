"""The published tinker SDK against `hone serve-tinker`, and what transformers and PEFT compute for the same data."""
import contextlib
import io
import json
import os
import resource
import signal
import sys
import tarfile
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
SDK = ROOT / ".venv/tinker"
for folder in (SDK, ROOT / "tests/serve"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
os.environ.setdefault("TINKER_TELEMETRY", "1")
import tinker  # noqa: E402
from serve_testing import Server  # noqa: E402
from tinker import types  # noqa: E402

MODEL = "models/nano"
ALICE, BOB = "tml-alice-0123456789", "tml-bob-0123456789"


class TinkerServer(Server):
    """serve-tinker, with two tenants unless `tenants` are given. Clients name the model as the command line did, and load its tokenizer by that name."""

    clients = {}  # of all servers, by address: one that was killed and started again has those of before

    def __init__(self, folder, *words, model=MODEL, env=None, tenants=f"# tenants of the tests\nalice {ALICE}\nbob {BOB}\n"):
        keys = Path(folder) / "keys"
        keys.parent.mkdir(parents=True, exist_ok=True)
        keys.write_text(tenants)
        super().__init__("--tinker_dir", Path(folder) / "state", "--api_keys", keys, "--torch_dtype", "float32", *words, verb="serve-tinker", model=model, env=env)

    def service(self, key=ALICE):
        client = tinker.ServiceClient(base_url=self.url, api_key=key)
        self.clients.setdefault(self.url, []).append(client)
        return client

    def stop(self, *how, **more):
        """Sessions end first: their clients would still send heartbeats, and warn that nobody answers."""
        ends = [client.close("success") for client in self.clients.pop(self.url, []) if self.process.poll() is None]
        for end in ends:
            with contextlib.suppress(Exception):
                end.result(5)
        return super().stop(*how, **more)

    def call(self, method, path, body=None, key=ALICE, **more):
        """(status, what it answered), without the SDK."""
        status, _, text = self.request(method, "/api/v1/" + path, body, headers={"X-API-Key": key, **more.pop("headers", {})}, **more)
        return status, json.loads(text) if text else None

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def archive_address(self, tinker_path, key=ALICE):
        """Where a checkpoint's archive is, for a while; the download itself carries no key."""
        class NoRedirect(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, *_):
                return None
        run, kind, name = tinker_path.removeprefix("tinker://").split("/")
        request = urllib.request.Request(f"{self.url}/api/v1/training_runs/{run}/checkpoints/{kind}/{name}/archive", headers={"X-API-Key": key})
        try:
            urllib.request.build_opener(NoRedirect).open(request)
            raise AssertionError("no redirect")
        except urllib.error.HTTPError as answer:
            assert answer.code == 302
            return answer.headers["Location"]

    def archive(self, tinker_path, folder, key=ALICE):
        """A checkpoint as the PEFT folder that its archive holds."""
        with urllib.request.urlopen(self.archive_address(tinker_path, key)) as answer, tarfile.open(fileobj=io.BytesIO(answer.read())) as tar:
            tar.extractall(folder, filter="data")
        return folder


def resident_bytes(server):
    fields = Path(f"/proc/{server.process.pid}/statm").read_text().split()
    return int(fields[1]) * resource.getpagesize()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    os.chdir(ROOT)  # the model's name is a folder below it
    server = TinkerServer(tmp_path_factory.mktemp("tinker"))
    yield server
    assert server.stop() == 0, server.log()


@pytest.fixture(scope="session")
def tokenizer():
    from transformers import AutoTokenizer
    return AutoTokenizer.from_pretrained(ROOT / MODEL)


def base_model(folder=ROOT / MODEL):
    from transformers import AutoModelForCausalLM
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def peft_model(folder, base=ROOT / MODEL):
    from peft import PeftModel
    return PeftModel.from_pretrained(base_model(base), folder, is_trainable=True)


TEXTS = ["The quick brown fox jumps over the lazy dog.", "Who trained you? The hone project did.", "Water boils at 100 degrees.", "One, two, three, four, five."]


def rows(tokenizer, texts=TEXTS):
    """Tokens and targets, already shifted, as clients send them."""
    return [(ids[:-1], ids[1:]) for ids in (tokenizer.encode(text) for text in texts)]


def datum(tokens, targets, **inputs):
    tensors = {"target_tokens": types.TensorData.from_torch(torch.tensor(targets))}
    for name, values in inputs.items():
        tensors[name] = types.TensorData.from_torch(torch.as_tensor(values, dtype=torch.float32))
    return types.Datum(model_input=types.ModelInput.from_ints(list(tokens)), loss_fn_inputs=tensors)


def target_logprobs(model, tokens, targets):
    logits = model(torch.tensor([tokens])).logits[0].float()
    return logits.log_softmax(-1).gather(1, torch.tensor(targets).unsqueeze(1)).squeeze(1)


def lora_weights(model):
    return {name.replace(".default", "").removeprefix("base_model.model."): value for name, value in model.named_parameters() if "lora_" in name}


def saved_weights(folder):
    from safetensors.torch import load_file
    return {name.removeprefix("base_model.model."): value for name, value in load_file(Path(folder) / "adapter_model.safetensors").items()}
