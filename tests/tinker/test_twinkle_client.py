"""Twinkle's own client, unmodified, against the server: its loop of steps is PEFT's on the same data, and what it saves can be sampled."""
import json
import os
import subprocess
import sys

import numpy
import pytest
import torch
from tinker_testing import ALICE, BOB, MODEL, ROOT, TinkerServer, peft_model, rows, target_logprobs

sys.path.append(str(ROOT / "tests/hub"))
from hub_server import Hub  # noqa: E402
from hub_uploads import TOKEN  # noqa: E402

CLIENT = ROOT / ".venv/twinkle"
RATE, DECAY, STEPS = 2e-3, 0.01, 4

SCRIPT = """
import json, sys
url, key, model_id, rows, steps, rate = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6])
from peft import LoraConfig
from twinkle_client import init_twinkle_client
from twinkle_client.model import MultiLoraTransformersModel
from twinkle_client.sampler import vLLMSampler
client = init_twinkle_client(base_url=url, api_key=key)
out = {"healthy": client.health_check(), "models": [each.model_name for each in client.get_server_capabilities().supported_models]}
model = MultiLoraTransformersModel(model_id=model_id)
model.add_adapter_to_model("default", LoraConfig(r=8, lora_alpha=16, target_modules="all-linear"), gradient_accumulation_steps=1)
model.set_template("Template")
model.set_processor("InputProcessor", padding_side="right")
model.set_loss("CrossEntropyLoss")
model.set_optimizer("AdamW", lr=rate)
model.set_lr_scheduler("LinearLR", start_factor=1.0, end_factor=0.5, total_iters=4)
out["start"] = model.save("start", is_sampler=True).twinkle_path
inputs = [{"input_ids": tokens, "labels": targets} for tokens, targets in rows]
out["losses"], out["norms"] = [], []
for _ in range(steps):
    out["losses"].append(model.forward_backward(inputs=inputs).result["loss"])
    out["norms"].append(float(model.clip_grad_norm(1.0).result))
    model.step(); model.zero_grad(); model.lr_step()
out["metric"] = model.calculate_metric(is_training=True).result
out["logps"] = model.forward_only(inputs=inputs).result["logps"]
saved = model.save("kept", save_optimizer=True, consumed_train_samples=12)
out["saved"], out["sampler"] = saved.twinkle_path, model.save("told", is_sampler=True).twinkle_path
before = model.forward_only(inputs=inputs).result["loss"]
model.set_loss("GRPOLoss", epsilon=0.2)
out["grpo"] = model.forward_backward(inputs=inputs, advantages=[1.0] * len(inputs), old_logps=[[lp for lp, t in zip(row, targets) if t != -100] for row, (_, targets) in zip(out["logps"], rows)]).result["loss"]
model.clip_grad_and_step(max_grad_norm=1.0)
out["moved"] = model.forward_only(inputs=inputs).result["loss"] - before
out["resumed"] = model.resume_from_checkpoint(saved.twinkle_path)
out["back"] = model.forward_only(inputs=inputs).result["loss"] - before
sampler = vLLMSampler(model_id=model_id)
sampler.set_template("Template")
answers = sampler.sample([{"input_ids": rows[0][0]}], {"max_tokens": 4, "temperature": 0.0}, adapter_uri=out["sampler"], num_samples=2)
out["tokens"] = [each.tokens for each in answers[0].sequences]
out["feature"] = answers[0].sequences[0].new_input_feature
out["chat"] = len(sampler.sample([{"messages": [{"role": "user", "content": "Who?"}]}], {"max_tokens": 2, "temperature": 0.0})[0].sequences[0].tokens)
runs = client.list_training_runs()
out["runs"] = [(run.lora_rank, run.model_owner) for run in runs]
out["checkpoints"] = sorted(each.checkpoint_id for each in client.list_checkpoints(runs[0].training_run_id))
out["rank"] = client.get_weights_info(saved.twinkle_path).lora_rank
out["deleted"] = client.delete_checkpoint(runs[0].training_run_id, "sampler_weights/start").success
out["capacity"] = client.get_capacity_info().max_loras
refused = {}
for name, call in {"loss": lambda: model.set_loss("GKDLoss"), "type": lambda: model.set_loss("DPOLoss", loss_type="hinge"), "patch": lambda: model.apply_patch("x"), "optimizer": lambda: model.set_optimizer("Muon"), "backward": lambda: model.backward()}.items():
    try:
        call()
    except Exception as problem:
        refused[name] = str(problem)
out["refused"] = refused
client.close()
print(json.dumps(out))
"""


@pytest.fixture(scope="module")
def told(server, tokenizer):
    data = [(tokens, [-100] * 3 + targets[3:]) for tokens, targets in rows(tokenizer)]
    done = subprocess.run([sys.executable, "-c", SCRIPT, server.url, ALICE, MODEL, json.dumps(data), str(STEPS), str(RATE)], cwd=ROOT, capture_output=True, text=True, timeout=180,
                          env={**os.environ, "PYTHONPATH": str(CLIENT)})
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]), data


def test_the_client_trains_and_lists(told):
    out, _ = told
    assert out["healthy"] and out["models"] == [MODEL]
    assert out["losses"][-1] < out["losses"][0] and out["metric"]["iters"] == STEPS and float(out["metric"]["learning rate"]) == pytest.approx(RATE * 0.5)
    assert out["rank"] == 8 and out["runs"][0] == [8, "alice"] and out["checkpoints"] == ["sampler_weights/start", "sampler_weights/told", "weights/kept"] and out["deleted"]


def test_twinkle_steps_equal_peft(server, tokenizer, tmp_path):
    """Compared with PEFT from the weights that the server began with: a mean over labels, AdamW with decay, norms clipped at 1, the rate falling by a line."""
    data = [(tokens, [-100] * 3 + targets[3:]) for tokens, targets in rows(tokenizer)]
    session = server.call("POST", "twinkle/create_session", {"metadata": None})[1]["session_id"]

    def call(verb, **body):
        status, answer = server.call("POST", f"model/{MODEL}/twinkle/{verb}", {"adapter_name": "own", **body}, headers={"X-Twinkle-Session-Id": session})
        assert status == 200, answer
        return answer
    call("add_adapter_to_model", config=json.dumps({"r": 8, "lora_alpha": 16, "target_modules": "all-linear", "_TWINKLE_TYPE_": "LoraConfig"}))
    call("set_optimizer", optimizer_cls="AdamW", lr=RATE)
    call("set_lr_scheduler", scheduler_cls="LinearLR", start_factor=1.0, end_factor=0.5, total_iters=4)
    start = call("save", name="start", is_sampler=True)["twinkle_path"].replace("twinkle://", "tinker://")
    model = peft_model(server.archive(start, tmp_path / "start"))
    optimizer = torch.optim.AdamW([value for value in model.parameters() if value.requires_grad], lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.5, total_iters=4)
    for _ in range(STEPS):
        labels = sum(target != -100 for _, targets in data for target in targets)
        loss = 0
        for tokens, targets in data:
            kept = torch.tensor([target != -100 for target in targets])
            loss = loss - target_logprobs(model, tokens, [max(target, 0) for target in targets])[kept].sum() / labels
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step(), optimizer.zero_grad(), schedule.step()
        ours = call("forward_backward", inputs=[{"input_ids": tokens, "labels": targets} for tokens, targets in data])["result"]["loss"]
        assert ours == pytest.approx(loss.item(), rel=1e-5)
        assert float(call("clip_grad_norm", max_grad_norm=1.0)["result"]) == pytest.approx(norm.item(), rel=1e-4)
        for verb in ("step", "zero_grad", "lr_step"):
            call(verb)


PAIRS_SCRIPT = """
import json, sys
import torch
url, key, model_id, rows = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
from peft import LoraConfig
from twinkle.loss import DPOLoss
from twinkle_client import init_twinkle_client
from twinkle_client.model import MultiLoraTransformersModel
client = init_twinkle_client(base_url=url, api_key=key)
model = MultiLoraTransformersModel(model_id=model_id)
model.add_adapter_to_model("default", LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", lora_dropout=0.05))
model.set_template("Template")
model.set_processor("InputProcessor", padding_side="right")
model.set_loss("DPOLoss", beta=0.3, loss_type="sigmoid", reference_free=False, sft_weight=0.5)
model.add_metric("DPOMetric", beta=0.3)
model.set_optimizer("Adam", lr=5e-3)
inputs = [{"input_ids": tokens, "labels": targets} for tokens, targets in rows]
out = {"losses": [], "own": [], "metrics": []}
longest = max(len(tokens) for tokens, _ in rows)
padded = lambda values, fill: torch.tensor([[*each, *[fill] * (longest - len(each))] for each in values])
labels = padded([targets for _, targets in rows], -100)
for _ in range(3):
    reference = model.forward_only(inputs=inputs, disable_lora=True).result
    done = model.forward_backward(inputs=inputs, ref_outputs=reference).result
    out["losses"].append(done["loss"])
    own = DPOLoss(beta=0.3, sft_weight=0.5)({"labels": labels}, {"logps": padded(done["logps"], 0.0)}, ref_logps=padded(reference["logps"], 0.0))
    out["own"].append(float(own["loss"] if isinstance(own, dict) else own.loss))
    model.clip_grad_and_step()
    out["metrics"].append(model.calculate_metric(is_training=True).result)
client.close()
print(json.dumps(out))
"""


def test_preferences_are_twinkles_loss(server, tokenizer):
    """DPO over the base model's log-probabilities: Twinkle's own class computes the same from the log-probabilities that were returned."""
    data = [(tokens, [-100] * 3 + targets[3:]) for tokens, targets in rows(tokenizer)]
    done = subprocess.run([sys.executable, "-c", PAIRS_SCRIPT, server.url, ALICE, MODEL, json.dumps(data)], cwd=ROOT, capture_output=True, text=True, timeout=180, env={**os.environ, "PYTHONPATH": str(CLIENT)})
    assert done.returncode == 0, done.stderr[-3000:]
    out = json.loads(done.stdout.splitlines()[-1])
    assert out["losses"] == pytest.approx(out["own"], rel=1e-4) and out["losses"][2] < out["losses"][0]
    last = out["metrics"][-1]
    assert float(last["rewards/margins"]) == pytest.approx(float(last["rewards/chosen"]) - float(last["rewards/rejected"]), abs=2e-4)
    assert last["rewards/accuracies"].endswith("%") and float(last["logps/chosen"]) < 0


def test_embeddings_are_twinkles_loss(server, tokenizer, tmp_path):
    """Contrastive steps equal PEFT's: the normalized state of each text's last token, other rows' texts as negatives, a mean over anchors."""
    texts = [tokenizer.encode(text) for text in ("Who are you?", "I am a small model.", "I am a fox.", "What is the sky?", "The sky is blue.", "A sea.")]
    labels = [1, 0, 0, 1, 0, 0]
    session = server.call("POST", "twinkle/create_session", {"metadata": None})[1]["session_id"]

    def call(verb, expected=200, **body):
        status, answer = server.call("POST", f"model/{MODEL}/twinkle/{verb}", {"adapter_name": "own", **body}, headers={"X-Twinkle-Session-Id": session})
        assert status == expected, answer
        return answer
    inputs = [{"input_ids": ids, "labels": [label]} for ids, label in zip(texts, labels)]
    call("add_adapter_to_model", config=json.dumps({"r": 4, "lora_alpha": 16, "target_modules": "all-linear", "_TWINKLE_TYPE_": "LoraConfig"}))
    call("set_loss", loss_cls="InfonceLoss", temperature=0.07, use_batch=True, hard_negatives=None)
    call("set_optimizer", optimizer_cls="AdamW", lr=RATE)
    call("add_metric", metric_cls="EmbeddingMetric", is_training=True)
    start = call("save", name="start", is_sampler=True)["twinkle_path"].replace("twinkle://", "tinker://")
    model = peft_model(server.archive(start, tmp_path / "start"))
    optimizer = torch.optim.AdamW([value for value in model.parameters() if value.requires_grad], lr=RATE, weight_decay=DECAY)
    for _ in range(2):
        states = [model(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states[-1][0, -1] for ids in texts]
        vectors = torch.nn.functional.normalize(torch.stack(states), dim=-1)
        anchors, documents = vectors[[0, 3]], vectors[[1, 2, 4, 5]]
        loss = torch.nn.functional.cross_entropy(anchors @ documents.T / 0.07, torch.tensor([0, 2]))
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step(), optimizer.zero_grad()
        assert call("forward_backward", inputs=inputs, task="embedding")["result"]["loss"] == pytest.approx(loss.item(), rel=1e-5)
        assert float(call("clip_grad_norm", max_grad_norm=1.0)["result"]) == pytest.approx(norm.item(), rel=1e-4)
        call("step"), call("zero_grad")
        metric = call("calculate_metric", is_training=True)["result"]
        assert float(metric["pos_sim"]) == pytest.approx((anchors * vectors[[1, 4]]).sum(-1).mean().item(), abs=1e-4)
        assert float(metric["neg_sim"]) == pytest.approx(((anchors @ vectors[[1, 4]].T).sum() - (anchors * vectors[[1, 4]]).sum()).item() / 2, abs=1e-4)
    for wrong, said in (({"inputs": inputs[1:]}, "not an anchor"), ({"inputs": inputs[:1]}, "no positive"), ({"task": "causal_lm"}, "embedding"), ({"inputs": [{"input_ids": [5], "labels": [1, 0]}]}, "2 labels")):
        assert said in call("forward_backward", 400, **{"inputs": inputs, "task": "embedding", **wrong})["error"]["message"]
    many = [{"input_ids": [5] * 400, "labels": [i % 2 ^ 1]} for i in range(200)]
    assert "at once" in call("forward_backward", 400, inputs=many, task="embedding")["error"]["message"]


def test_grpo_resume_and_samples(told):
    out, data = told
    assert out["grpo"] == pytest.approx(-1, abs=1e-4)  # ratios are 1, advantages are 1
    assert abs(out["moved"]) > 1e-5 and out["back"] == pytest.approx(0, abs=1e-6)
    assert out["resumed"] == {"cur_step": STEPS, "gradient_accumulation_steps": 1, "consumed_train_samples": 12}
    assert out["tokens"][0] == out["tokens"][1] and 0 < len(out["tokens"][0]) <= 4 and out["chat"] > 0
    feature, prompt = out["feature"], data[0][0]
    assert feature["input_ids"] == prompt + out["tokens"][0] and numpy.array(feature["labels"])[len(prompt) - 1:-1].tolist() == out["tokens"][0]


def test_twinkle_paths_in_the_sdks_calls(server):
    client = server.service().create_lora_training_client(base_model=MODEL, rank=2).result()
    path = client.save_state("named").result().path.replace("tinker://", "twinkle://")
    session = client.model_id.split(":")[0]
    assert server.call("POST", "weights_info", {"tinker_path": path})[1]["lora_rank"] == 2
    status, sampler = server.call("POST", "create_sampling_session", {"session_id": session, "sampling_session_seq_id": 99, "model_path": path, "base_model": MODEL})
    assert status == 200, sampler
    body = {"sampling_session_id": sampler["sampling_session_id"], "seq_id": 0, "num_samples": 1, "prompt": {"chunks": [{"type": "encoded_text", "tokens": [5, 6]}]}, "sampling_params": {"max_tokens": 2}}
    assert server.call("POST", "asample", body)[0] == 200
    assert client.load_state(path).result().path == path
    assert server.call("POST", "create_sampling_session", {"session_id": session, "sampling_session_seq_id": 98, "model_path": path}, key=BOB)[0] == 404
    for wrong in ("twinkle://", path + "/more", "ms://" + path):
        assert server.call("POST", "create_sampling_session", {"session_id": session, "sampling_session_seq_id": 97, "model_path": wrong})[0] == 404


UPLOAD_SCRIPT = """
import sys
from twinkle_client import init_twinkle_client
from twinkle_client.model import MultiLoraTransformersModel
client = init_twinkle_client(base_url=sys.argv[1], api_key=sys.argv[2])
MultiLoraTransformersModel(model_id=sys.argv[3]).upload_to_hub(checkpoint_dir=sys.argv[4], hub_model_id="someone/mine", hub_token=sys.argv[5])
client.close()
"""


def test_a_checkpoint_goes_to_the_clients_repository(tmp_path):
    """With the client's token: the server has one of its own, which it does not lend."""
    hub = Hub()
    server = TinkerServer(tmp_path, env={**hub.environment(tmp_path / "home", False), "MODELSCOPE_API_TOKEN": TOKEN})
    try:
        path = server.service().create_lora_training_client(base_model=MODEL, rank=2).result().save_state("kept").result().path.replace("tinker://", "twinkle://")
        done = subprocess.run([sys.executable, "-c", UPLOAD_SCRIPT, server.url, ALICE, MODEL, path, TOKEN], cwd=ROOT, capture_output=True, text=True, timeout=180, env={**os.environ, "PYTHONPATH": str(CLIENT)})
        assert done.returncode == 0, done.stderr[-3000:]
        (commit,) = hub.commits
        assert commit["id"] == "someone/mine" and set(commit["files"]) == {"adapter_config.json", "adapter_model.safetensors"} and json.loads(commit["files"]["adapter_config.json"])["r"] == 2

        def call(key=ALICE, **body):
            status, answer = server.call("POST", f"model/{MODEL}/twinkle/upload_to_hub", {"checkpoint_dir": path, "hub_model_id": "someone/mine", "hub_token": TOKEN, **body}, key=key)
            return status, answer["error"]["message"]
        assert call(hub_token=None) == (400, "hub_token is missing: this server does not upload with its own token")
        assert call(hub_token="hf_wrong")[0] == 400 and call(hub_model_id="../x")[0] == 400 and call(checkpoint_dir="/etc")[0] == 404 and call(key=BOB)[0] == 404
        assert len(hub.commits) == 1
    finally:
        assert server.stop() == 0, server.log()
        hub.close()


def test_what_is_not_there_is_named(server, told):
    refused = told[0]["refused"]
    assert "expected CrossEntropyLoss, GRPOLoss, DPOLoss or InfonceLoss" in refused["loss"] and "expected sigmoid" in refused["type"] and "AdamW" in refused["optimizer"]
    assert "apply_patch is not supported" in refused["patch"] and "call forward_backward" in refused["backward"]
    assert server.call("POST", "model/another/model/twinkle/create", {})[0] == 404
    assert server.call("POST", f"model/{MODEL}/twinkle/step", {"adapter_name": "default"}, key=BOB)[0] == 404
    assert server.call("POST", "processor/twinkle/create", {})[0] == 400 and server.call("POST", "processor/twinkle/delete", {})[0] == 404


DATA_SCRIPT = """
import json, sys
url, key, model_id = sys.argv[1:4]
from twinkle.dataset import Dataset as LocalDataset, DatasetMeta
from twinkle_client import init_twinkle_client
from twinkle_client.dataloader import DataLoader
from twinkle_client.dataset import Dataset
client = init_twinkle_client(base_url=url, api_key=key)
rows = [{"query": f"Who are you, {i}?", "response": "I am {{NAME}} of {{AUTHOR}}." * (1 + i % 3)} for i in range(7)]
args = {"model_name": "hone", "model_author": "us"}
def made(cls, meta):
    dataset = cls(meta)
    dataset.set_template("Template", model_id=model_id, max_length=48, truncation_strategy="right")
    dataset.map("SelfCognitionProcessor", init_args=args)
    dataset.encode()
    return dataset
local, remote = (made(cls, DatasetMeta(data=rows, data_slice=range(9))) for cls in (LocalDataset, Dataset))
plain = lambda value: value.tolist() if hasattr(value, "tolist") else value
names = ("input_ids", "labels", "attention_mask", "position_ids", "length", "messages")
out = {"local": [{name: plain(local[i][name]) for name in names} for i in range(len(local))], "remote": [{name: remote[i][name] for name in names} for i in range(len(remote))]}
loader = DataLoader(dataset=remote, batch_size=4)
out["batches"], out["loader"] = [[row["length"] for row in batch] for batch in loader], len(loader)
out["again"] = [len(batch) for batch in loader]
loader.resume_from_checkpoint(4)
out["resumed"], out["state"] = [[row["length"] for row in batch] for batch in loader], loader.get_state()
file = Dataset(DatasetMeta("rows.jsonl"))
file.map("AlpacaProcessor")
file.add_dataset(DatasetMeta(data={"instruction": ["x", "y"], "output": ["z", "z"]}))
file.mix_dataset(interleave=False)
out["file"] = [file[i].get("messages") for i in range(len(file))]
refused = {}
for name, call in {"path": lambda: Dataset(DatasetMeta("../keys")), "absolute": lambda: Dataset(DatasetMeta("/etc/passwd")), "preprocessor": lambda: remote.map("MyProcessor"), "argument": lambda: remote.map("AlpacaProcessor", init_args={"x": 1}),
                   "filter": lambda: remote.filter("x"), "column": lambda: remote.map("GSM8KProcessor"), "index": lambda: remote[99], "shuffle": lambda: DataLoader(dataset=remote, batch_size=2, shuffle=True)}.items():
    try:
        call()
    except Exception as problem:
        refused[name] = str(problem)
out["refused"], out["id"] = refused, remote.processor_id
client.close()
print(json.dumps(out))
"""


def test_datasets_on_the_server_are_twinkles_own(tmp_path):
    """The client's Dataset and DataLoader against the same calls on Twinkle's own classes."""
    datasets = tmp_path / "datasets"
    datasets.mkdir()
    (datasets / "rows.jsonl").write_text("".join(json.dumps({"instruction": f"say {i}", "input": "now", "output": str(i)}) + "\n" for i in range(3)))
    (tmp_path / "models").symlink_to(ROOT / "models")  # Twinkle writes locks where it runs
    server = TinkerServer(tmp_path, "--dataset_root", datasets)
    try:
        done = subprocess.run([sys.executable, "-c", DATA_SCRIPT, server.url, ALICE, MODEL], cwd=tmp_path, capture_output=True, text=True, timeout=180, env={**os.environ, "PYTHONPATH": str(CLIENT), "HF_HOME": str(tmp_path / "hf")})
        assert done.returncode == 0, done.stderr[-3000:]
        told = json.loads(done.stdout.splitlines()[-1])
        assert len(told["remote"]) == 9 and any(max(row["labels"]) >= 0 for row in told["remote"]) and any(row["length"] == 48 for row in told["remote"])
        for ours, theirs in zip(told["remote"], told["local"]):
            assert {name: value for name, value in ours.items() if name != "messages"} == {name: value for name, value in theirs.items() if name != "messages"}
            assert [(each["role"], each["content"]) for each in ours["messages"]] == [(each["role"], each["content"]) for each in theirs["messages"]]
        lengths = [row["length"] for row in told["remote"]]
        assert told["batches"] == [lengths[:4], lengths[4:8], lengths[8:]] and told["loader"] == 3 and told["again"] == [4, 4, 1]
        assert told["resumed"] == [lengths[4:8], lengths[8:]] and told["state"] == {"consumed_train_samples": 12}
        assert [messages and messages[0]["content"] for messages in told["file"]] == ["say 0\nnow", "say 1\nnow", "say 2\nnow", None, None]
        expected = {"path": "there is no file", "absolute": "there is no file", "preprocessor": "expected one of AlpacaProcessor", "argument": "has no argument x", "filter": "filter of a dataset", "column": "question",
                    "index": "there are 9 rows", "shuffle": "shuffle the rows"}
        for name, why in expected.items():
            assert why in told["refused"].get(name, ""), (name, told["refused"].get(name))
        assert server.call("POST", "processor/twinkle/call", {"processor_id": told["id"], "function": "__len__"}, key=BOB)[0] == 404
        assert server.call("POST", "processor/twinkle/call", {"processor_id": told["id"], "function": "__len__"})[1] == {"result": 9}
        assert server.call("POST", "processor/twinkle/create", {"processor_type": "reward", "class_type": "MathReward"})[0] == 400
        for meta in ("x", {"data": [1]}, {"data": {"a": [1], "b": []}}, {"data": [], "data_slice": {"_slice_type_": "range", "start": 0, "stop": 1 << 60, "step": 1}}):
            assert server.call("POST", "processor/twinkle/create", {"processor_type": "dataset", "class_type": "Dataset", "dataset_meta": meta})[0] == 400
        far = {"data": [{"query": "x"}], "data_slice": {"_slice_type_": "range", "start": 0, "stop": (1 << 63) - 1, "step": 1 << 62}}
        made = server.call("POST", "processor/twinkle/create", {"processor_type": "dataset", "class_type": "Dataset", "dataset_meta": far})[1]["processor_id"]
        assert server.call("POST", "processor/twinkle/call", {"processor_id": made, "function": "__len__"})[1] == {"result": 2}
    finally:
        assert server.stop() == 0, server.log()


def test_rows_beyond_the_memory_are_refused(server):
    """A small request may ask for a large dataset: it is counted while it is made, and nothing of it stays."""
    def call(verb, **body):
        return server.call("POST", f"processor/twinkle/{verb}", body)
    million = {"_slice_type_": "range", "start": 0, "stop": 1_000_000, "step": 1}
    status, answer = call("create", processor_type="dataset", class_type="Dataset", dataset_meta={"data": [{"query": "x" * 10_000}], "data_slice": million})
    assert status == 400 and "more than the 1 GB of memory" in answer["error"]["message"], answer
    dataset = call("create", processor_type="dataset", class_type="Dataset", dataset_meta={"data": [{"query": "{{NAME}}", "response": "y"}], "data_slice": {**million, "stop": 10_000}})[1]["processor_id"]
    status, answer = call("call", processor_id=dataset, function="map", preprocess_func="SelfCognitionProcessor", init_args={"model_name": "n" * 1_000_000, "model_author": "us"})
    assert status == 400 and "more than the 1 GB of memory" in answer["error"]["message"], answer
    assert call("call", processor_id=dataset, function="__len__")[1] == {"result": 10_000}
    assert call("call", processor_id=dataset, function="__getitem__", idx=0)[1] == {"result": {"query": "{{NAME}}", "response": "y"}}
