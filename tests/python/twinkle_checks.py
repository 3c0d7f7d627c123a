"""Checks of hone.twinkle against the real twinkle-kit, each a function; test_twinkle.py runs them all in the environment of the wheel.

    python twinkle_checks.py FOLDER    writes FOLDER/results.json: the name of each check and "ok" or its traceback
"""
import json
import sys
from pathlib import Path
from unittest import mock

import hone  # before torch, whose threads would else spin
import hone.twinkle as ours
from checks import NANO, main, raises

import numpy as np
import torch
import twinkle as theirs
import twinkle.advantage as their_advantages
import torch.nn.functional as F
import twinkle.loss as their_losses
from hone.twinkle import advantage, dispatch, loss
from hone.twinkle.cli import CLI
from hone.twinkle.data_format import SamplingParams
from hone.twinkle.dataloader import DataLoader
from hone.twinkle.dataset import Dataset, DatasetMeta
from hone.twinkle.metric import CISPOMetric, DPOMetric, GRPOMetric, GSPOMetric
from hone.twinkle.model import MultiLoraMegatronModel, TransformersModel
from hone.twinkle.platform import DeviceGroup, DeviceMesh
from hone.twinkle.processes import axis_sizes
from hone.twinkle.sampler import TorchSampler
from peft import LoraConfig
from twinkle.cli import CLI as TheirCLI
from twinkle.infra import _collect_func, _dispatch_args
from twinkle import metric as their_metrics
from twinkle.utils.device_mesh import DeviceMesh as TheirMesh

MESHES = [dict(dp_size=2, fsdp_size=2), dict(fsdp_size=4), dict(dp_size=2, tp_size=2), dict(dp_size=2, fsdp_size=4, ulysses_size=2), dict(dp_size=2, pp_size=2, tp_size=2)]


def check_a_real_twinkle_is_never_hidden_silently(folder):
    assert theirs.__name__ == "twinkle" and ours.__name__ == "hone.twinkle"
    error = raises(hone.UsageError, ours.install)
    assert "already" in error.message and "replace=True" in error.hint


def check_meshes_deal_out_rows_as_twinkle_does(folder):
    for sizes in MESHES:
        mesh, other = DeviceMesh.from_sizes(**sizes), TheirMesh.from_sizes(**sizes)
        assert (mesh.mesh == other.mesh).all() and mesh.world_size == other.world_size and mesh.data_world_size == other.data_world_size, sizes
        for rank in range(mesh.world_size):
            assert mesh.get_data_rank_from_global_rank(rank) == other.get_data_rank_from_global_rank(rank), (sizes, rank)
        for length in (1, 7, 8, 13):
            assert [mesh.get_slice(length, rank) for rank in range(mesh.data_world_size)] == [other.get_slice(length, rank) for rank in range(mesh.data_world_size)]
        assert mesh.get_pp_last_ranks() == other.get_pp_last_ranks()
    raises(hone.UsageError, lambda: DeviceMesh(np.arange(4), ("sideways",)))
    sizes = axis_sizes(DeviceMesh.from_sizes(fsdp_size=4, ep_size=2), 4)
    assert (sizes["dp"], sizes["fsdp"], sizes["ep"]) == (4, 1, 2), sizes  # experts are shared out, the rest is whole


def check_olympiad_bench_is_read_and_scored_as_twinkle_does(folder):
    import random

    import twinkle.preprocessor.olympiad_bench as their_problems
    import twinkle.reward.olympiad_bench as their_rewards
    from hone.twinkle.preprocessor.olympiad_bench import OlympiadBenchProcessor
    from hone.twinkle.reward import olympiad_bench as rewards
    from hone.twinkle.template import _flattened
    for row in ({"question": "Why?", "final_answer": ["1", " 2"], "context": "Once."}, {"question": "How?", "final_answer": "3", "context": None, "image_2": b"second", "image_1": b"first"}):
        own, other = OlympiadBenchProcessor(system="S").preprocess(row), their_problems.OlympiadBenchProcessor(system="S").preprocess(row)
        assert [_flattened(message["content"]) for message in own["messages"]] == [_flattened(message["content"]) for message in other["messages"]] and own["user_data"] == other["user_data"]
    draw = random.Random(0)
    atoms = ["\\frac{1}{2}", "\\dfrac{a}{b}", "3/2", "3:2", "\\sqrt{5}", "５", "Ａ", "，", "（1，2）", "\\left(", "\\right)", "\\leq ", "\\leqslant", "\\in[", "\\quad", "+\\infty", "\\text{cm}", " cm", "10N", "7 m/s",
             "\\Delta E_p", "_{12}", "^{3}", "neq", "in(", "qquad", "kHz", "MeV", "°", "米", ",", ",,", ".", "$", "x", "2.005", "(1,2),(3,4)", "-3", "0", "0.00001", "{", "}", "\\{", "\\}", " ", "m", "12rad"]
    words = ["Step 1", "so x = 2", "所以", "a+b=c", "\\boxed{", " \\boxed{2}", "}", "{", "Therefore ", "第三步", "lorem ipsum dolor sit amet ", "==", "1 = 1 ", "+-*/^", "Answer "]
    rows = []
    for number in range(600):
        answer = "".join(draw.choices(words, k=draw.randint(0, draw.choice([3, 20, 150])))) + f" \\boxed{{{''.join(draw.choices(atoms, k=2))}}}"
        truth = draw.choice(["2", "1/2", "1,2", "", "0", "".join(draw.choices(atoms, k=2))])
        rows.append({"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": answer}], "user_data": [("ground_truth", truth), ("is_multiple_answer", number % 3 == 0)]})
    for name in ("OlympiadBenchAccuracyReward", "OlympiadBenchFormatReward", "OlympiadBenchQualityReward"):
        own, other = getattr(rewards, name)()(rows), getattr(their_rewards, name)()(rows)
        assert np.allclose(own, other, atol=1e-9) and len(set(own)) > 3, name
    for answer, truth, score in (("nan", "2", 0.0), ("2", "nan", 0.0), ("inf", "1e999", 0.0), ("-inf", "2", 0.0), ("nan", "nan", 1.0)):
        row = {"messages": [{"role": "assistant", "content": f"\\boxed{{{answer}}}"}], "user_data": [("ground_truth", truth)]}
        assert rewards.OlympiadBenchAccuracyReward()([row]) == [score], (answer, truth)


def check_calls_are_shared_out_and_collected_as_twinkle_does(folder):
    workers, rows = list(range(4)), list(range(10))
    for sizes in MESHES[:3]:
        mesh, other = DeviceMesh.from_sizes(**sizes), TheirMesh.from_sizes(**sizes)
        for way in ("slice", "slice_dp", "all"):
            expected = [call[1:] for call in _dispatch_args(workers, way, "all", other, (rows, "x"), {"more": rows, "one": 3})]
            assert [tuple(map(list, (args,))) + (kwargs,) for args, kwargs in dispatch.dispatch_calls(way, 4, mesh, (rows, "x"), {"more": rows, "one": 3})] == [
                (list(args), kwargs) for args, kwargs in expected], (sizes, way)
    for way, results in (("none", [1]), ("none", [1, 2]), ("flatten", [[1], [2, 3]]), ("mean", [1.0, 2.0]), ("sum", [1.0, 2.0]), ("first", [4, 5]), ("flatten", [([1], [2]), ([3], [4])])):
        assert dispatch.collect_results(way, results, None) == _collect_func(way, results), (way, results)
    assert dispatch.collect_results(sum, [1, 2], None) == 3
    raises(hone.UsageError, lambda: dispatch.dispatch_calls("sideways", 2, None, ([1],), {}))


def labelled(rows=4, tokens=9):
    torch.manual_seed(0)
    labels = torch.randint(0, 50, (rows, tokens))
    for row, prompt in enumerate((2, 4, 1, 5)):
        labels[row, :prompt] = -100
    logps = -torch.rand(rows, tokens) * 3
    return {"labels": labels}, {"logps": logps * (labels >= 0), "logits": None}, [-torch.rand(int((labels[row] >= 0).sum())) for row in range(rows)]


def check_losses_are_twinkles(folder):
    inputs, outputs, old = labelled()
    advantages, whole = [1.0, -0.5, 0.25, -1.0], -torch.rand(4, 9)
    for name, settings in (("GRPOLoss", {}), ("GRPOLoss", {"beta": 0.1, "epsilon_high": 0.4}), ("GSPOLoss", {}), ("BNPOLoss", {})):
        def values(module, **more):
            found = getattr(module, name)(epsilon=0.2, **settings)(inputs, outputs, old_logps=[row.tolist() for row in old], ref_logps=whole, advantages=advantages)
            return float(found["loss"]) / max(float(found["num_tokens"]), 1)

        assert abs(values(loss) - values(their_losses)) < 1e-5, (name, values(loss), values(their_losses))
    for settings in ({}, {"loss_type": "hinge"}, {"loss_type": "ipo"}, {"label_smoothing": 0.1}, {"sft_weight": 0.5}, {"reference_free": True}):
        pair = [float(module.DPOLoss(**settings)(inputs, outputs, ref_outputs={"logps": whole * (inputs["labels"] >= 0)})["loss"]) for module in (loss, their_losses)]
        assert abs(pair[0] - pair[1]) < 1e-5, (settings, pair)
    raises(hone.UsageError, lambda: loss.DPOLoss()(inputs, outputs))
    for name, settings in (("CPOLoss", {}), ("ORPOLoss", {}), ("SimPOLoss", {}), ("DPOLoss", {"loss_type": "kto_pair", "reference_free": True})):
        pair = [float(getattr(module, name)(**settings)(inputs, outputs)["loss"]) for module in (loss, their_losses)]
        assert abs(pair[0] - pair[1]) < 1e-5, (name, pair)


def check_distillation_is_twinkles(folder):
    inputs, outputs, _ = labelled()
    logits, whole, some, ids = torch.randn(4, 9, 50), torch.randn(4, 9, 50), torch.randn(4, 11, 5), torch.randint(0, 50, (4, 11, 5))
    for teacher in ({"teacher_topk_logprobs": some, "teacher_topk_indices": ids}, {"teacher_logits": whole}, {"teacher_logits": whole, "topk": 7}):
        for settings in ({"beta": 0}, {"beta": 1}, {"beta": 0.3, "temperature": 2.0}):
            copies = [{name: value.clone() if torch.is_tensor(value) else value for name, value in teacher.items()} for _ in range(2)]
            found = loss.GKDLoss(**settings)(inputs, {"logits": logits.clone()}, **copies[0])
            expected = their_losses.GKDLoss(**settings)(inputs, {"logits": logits.clone()}, **copies[1])
            assert abs(float(found["loss"]) / float(found["num_tokens"]) - float(expected["loss"])) < 1e-5, (settings, teacher.keys())
    raises(hone.UsageError, lambda: loss.GKDLoss()(inputs, {"logits": logits}))


def check_metrics_of_preferences_are_twinkles(folder):
    inputs, outputs, _ = labelled()
    reference = {"logps": -torch.rand(4, 9) * (inputs["labels"] >= 0)}
    figures = []
    for kind in (DPOMetric, their_metrics.DPOMetric):
        metric = kind(None, None, beta=0.2)
        metric.accumulate(inputs, outputs, ref_outputs=reference)
        figures.append(metric.calculate())
    assert figures[0] == figures[1], figures


def check_metrics_of_policies_are_twinkles(folder):
    torch.manual_seed(0)
    labels = torch.randint(0, 9, (4, 7))
    labels[:, :2] = labels[1, 5:] = -100
    outputs, old = dict(logps=-torch.rand(4, 7)), [(-torch.rand(int((row >= 0).sum()))).tolist() for row in labels]
    for kind in (GRPOMetric, GSPOMetric, CISPOMetric):
        figures = []
        for metric in (kind(temperature=0.7, epsilon_high=0.3), getattr(their_metrics, kind.__name__)(temperature=0.7, epsilon_high=0.3)):
            for rows in (slice(0, 3), slice(3, 4)):
                metric.accumulate({"labels": labels[rows]}, {"logps": outputs["logps"][rows]}, old_logps=old[rows], advantages=[1.0, -1.0, 0.5, -2.0][rows])
            metric.accumulate([{"labels": row} for row in labels], {"logps": [row[None] for row in -torch.ones(4, 7)]}, old_logps=old, advantages=[1.0, -1.0, 0.5, -2.0])  # row by row
            figures.append(metric.calculate())
        assert figures[0].keys() == figures[1].keys() and len(figures[0]) == 10, figures
        assert all(abs(figures[0][name] - figures[1][name]) < 1e-6 for name in figures[0]), figures


def check_settings_are_twinkles(folder):
    words = ("--model-id ms://Qwen/Qwen3-4B --lr 1e-4 --batch-size 8 --no-streaming --fsdp-size 2 --sequence-parallel --model-name x --loss-type=ipo --enable-ep 1 --lora-r 16 "
             "--max-new-tokens 7 --strategy native_fsdp --scheduler-eta-min 0.1 --reward-fns a,b").split()
    mine, other = CLI.from_args(words), TheirCLI.from_args(words)
    assert mine.to_dict() == other.to_dict() and mine.extra == other.extra
    for group in ("lora", "model", "dataset", "template", "training", "optimizer", "scheduler", "loss", "sampler", "sampling", "infra", "server", "rl", "checkpoint"):
        assert getattr(mine, f"get_{group}_args")() == getattr(other, f"get_{group}_args")(), group
    file = folder / "settings.yaml"
    file.write_text("model_id: y\nscheduler:\n  t_max: 5\n")
    args = CLI.from_args(["--config", str(file), "--t-max", "6"])
    assert args.model.model_id == "y" and args.scheduler.t_max == 6 and args["model_id"] == "y"
    assert "batch_size" in raises(hone.UsageError, lambda: CLI.from_args(["--batch-size", "many"])).message


def check_a_loss_that_reads_logits(folder):
    """It asks for them, and gets the gradients of the same loss over log-probabilities."""
    class Own(loss.Loss):
        require_logits = True

        def __call__(self, inputs, outputs, **kwargs):
            labels = inputs["labels"]
            return F.cross_entropy(outputs["logits"][labels >= 0], labels[labels >= 0], reduction="sum")

    rows, norms = [{"messages": [{"role": "user", "content": "Who are you?"}, {"role": "assistant", "content": "I am hone."}]}], []
    for kind in (Own, loss.CrossEntropyLoss):
        model = a_model()
        model.set_loss(kind)
        model.forward_backward(inputs=rows)
        tokens = int((model.forward_only(inputs=rows)["logps"] < 0).sum())
        norms.append(model.clip_grad_norm(1e9) * (tokens if kind is not Own else 1))
        model.zero_grad()
    assert abs(norms[0] / norms[1] - 1) < 1e-3, norms


def check_muon_and_the_modules_of_transformers(folder):
    model = a_model()
    model.set_optimizer(torch.optim.Muon, lr=1e-2, adjust_lr_fn="match_rms_adamw")
    assert {type(module).__name__ for module in model.model.modules()} >= {"Qwen2DecoderLayer"} and model.model.config.model_type == "qwen2"
    rows = [{"messages": [{"role": "user", "content": "Who are you?"}, {"role": "assistant", "content": "I am hone."}]}]
    losses = []
    for _ in range(4):
        losses.append(model.forward_backward(inputs=rows)["loss"])
        model.clip_grad_and_step()
    assert losses[-1] < losses[0], losses
    from transformers import AutoConfig
    config = AutoConfig.from_pretrained(NANO)
    config.use_cache = False
    megatron = MultiLoraMegatronModel(model_id=NANO, config=config, max_loras=2, mixed_precision="no")
    megatron.forward_only(inputs=rows)  # whose passes measure the loss by themselves
    assert abs(float(megatron.calculate_metric(is_training=False)["loss"]) - losses[0]) < 1e-3
    config.num_hidden_layers = 3
    assert "num_hidden_layers" in raises(hone.UsageError, lambda: TransformersModel(model_id=NANO, config=config)).message


def check_advantages_are_twinkles(folder):
    rewards = [1.0, 0.0, 0.5, 2.0, 2.0, 2.0]
    for name, count in (("GRPOAdvantage", 2), ("GRPOAdvantage", 3), ("GRPOAdvantage", 1), ("RLOOAdvantage", 3)):
        for scale in ("group", "batch", "none"):
            found, expected = (getattr(module, name)()(rewards, num_generations=count, scale=scale) for module in (advantage, their_advantages))
            assert torch.allclose(found, expected, atol=1e-6), (name, count, scale, found, expected)


def rows_file(folder, count=6):
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps({"problem": f"What is {i} plus 1?", "solution": f"It is {i + 1}."}) + "\n" for i in range(count)))
    return str(file)


def check_prompts_without_answers(folder):
    dataset = Dataset(DatasetMeta(rows_file(folder)))
    dataset.set_template("Template", model_id=NANO, max_length=512)
    dataset.map("CompetitionMathGRPOProcessor")
    dataset.check(batched=True)
    assert len(dataset) == 6 and dataset[0]["user_data"] == [("solution", "It is 1.")] and dataset[0]["messages"][-1]["content"] == ""
    dataset.encode(add_generation_prompt=True)
    assert (dataset[0]["labels"] == -100).all() and dataset.template.decode(dataset[0]["input_ids"]).count("What is 0 plus 1?") == 1


def a_model(**adapter):
    model = TransformersModel(model_id=NANO, mixed_precision="no")
    model.add_adapter_to_model("default", LoraConfig(target_modules="all-linear"), **adapter)
    model.set_optimizer("AdamW", lr=1e-3)
    model.set_lr_scheduler("LinearLR")
    return model


def check_a_list_of_targets_may_name_more_than_the_model_has(folder):
    model = TransformersModel(model_id=NANO)
    model.add_adapter_to_model("default", LoraConfig(target_modules=["q_proj", "v_proj", "in_proj_qkv"]))
    assert "['q_proj', 'v_proj']" in model.get_train_configs()


def check_accumulation_and_resuming(folder):
    ours.initialize(mode="local")
    dataset = Dataset(DatasetMeta(rows_file(folder), data_slice=range(8)))
    dataset.set_template("Template", model_id=NANO)
    dataset.map("CompetitionMathProcessor")
    dataset.encode()
    loader = DataLoader(dataset, batch_size=2)
    assert len(dataset) == 8 and len(loader) == 4 and all(len(batch) == 2 for batch in loader)
    model = a_model(gradient_accumulation_steps=2)
    batches = list(loader)
    losses, norms = [], []
    for batch in batches:
        losses.append(model.forward_backward(inputs=batch)["loss"])
        norms.append(model.clip_grad_and_step())
    assert [norm is None for norm in norms] == [True, False, True, False]
    saved = model.save("two", output_dir=str(folder), save_optimizer=True, consumed_train_samples=8)
    assert Path(saved, "adapter_model.safetensors").exists()
    expected = model.forward_backward(inputs=batches[0])["loss"]
    again = a_model(gradient_accumulation_steps=2)
    assert again.resume_from_checkpoint(saved) == {"consumed_train_samples": 8, "cur_step": 4}
    assert abs(again.forward_backward(inputs=batches[0])["loss"] - expected) < 1e-7
    assert abs(again.optimizer_group["default"].rates.learning_rate - model.optimizer_group["default"].rates.learning_rate) < 1e-12
    assert float(model.calculate_metric(is_training=True)["loss"]) > 0


def check_preferences_with_the_base_as_reference(folder):
    model = a_model()
    model.set_loss("DPOLoss", beta=0.1)
    rows = [{"messages": [{"role": "user", "content": "Who are you?"}, {"role": "assistant", "content": answer}]} for answer in ("I am hone.", "Nobody.", "hone.", "No.")]
    first = []
    for _ in range(3):
        reference = model.forward_only(inputs=rows, disable_lora=True)
        first.append(model.forward_backward(inputs=rows, ref_outputs=reference, micro_batch_size=2)["loss"])
        model.clip_grad_and_step()
    assert abs(first[0] - np.log(2)) < 1e-5 and first[2] < first[0], first
    model.forward(inputs=rows)
    assert model.calculate_loss(ref_outputs=reference) < first[0]
    model.backward()


def check_samplers_take_what_was_trained(folder):
    from hone.twinkle.checkpoint_engine import CheckpointEngineManager
    model, sampler = a_model(), TorchSampler(NANO, torch_dtype="float32")
    sampler.set_template("Template")
    prompt = {"messages": [{"role": "user", "content": "Who trained you?"}], "user_data": [("solution", "x")]}
    params = SamplingParams(max_tokens=4, temperature=0.0, num_samples=2)
    row = {"messages": [*prompt["messages"], {"role": "assistant", "content": "A teacher."}]}
    for round in range(2):
        response, = sampler.sample([prompt], params)
        sequence = response.sequences[0]
        feature = sequence.new_input_feature
        assert len(response.sequences) == 2 and feature["user_data"] == prompt["user_data"] and feature["messages"][-1]["role"] == "assistant"
        logps = model.forward_only(inputs=[feature])["logps"][0]
        answer = logps[feature["labels"] >= 0]
        assert np.allclose(answer.numpy(), [pair[0][1] for pair in sequence.logprobs], atol=1e-3), round
        for _ in range(5):
            model.forward_backward(inputs=[row])
            model.clip_grad_and_step()
        CheckpointEngineManager(model=model, sampler=sampler).sync_weights()


def check_router_replay_is_twinkles(folder):
    """What Twinkle records and replays in transformers' model, hone does in its own; experts of a sampler are those of a pass."""
    from hone.twinkle.model.transformers.moe.router_replay import RouterReplayAction
    from python_environment import make_small_model
    from transformers import Qwen3MoeForCausalLM
    sys.modules.setdefault("zmq", mock.MagicMock())  # of its weight transfer, which is not used here
    from twinkle.model.transformers.moe import router_replay as their_replay
    name = str(folder / "experts")
    make_small_model(name, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, norm_topk_prob=True, mlp_only_layers=[1])
    peer = Qwen3MoeForCausalLM.from_pretrained(name, dtype=torch.float32)
    their_replay.apply_router_replay_patch(peer)
    model = TransformersModel(model_id=name, mixed_precision="no", enable_router_replay=True)
    model.set_optimizer("AdamW", lr=1e-3)
    sampler = TorchSampler(name, torch_dtype="float32", engine_args={"enable_return_routed_experts": True})
    sampler.set_template("Template")
    prompts = [{"messages": [{"role": "user", "content": text}]} for text in ("Who are you?", "What is one plus two?")]
    features = [response.sequences[0].new_input_feature for response in sampler.sample(prompts, SamplingParams(max_tokens=6, temperature=0.0))]
    recorded = model.forward_only(inputs=features, router_replay_action=RouterReplayAction.RECORD)
    loss, tokens = 0, 0
    for feature, found in zip(features, recorded["routed_experts"]):
        ids = torch.as_tensor(feature["input_ids"])[None]
        their_replay.set_global_router_replay_action(their_replay.RouterReplayAction.RECORD)
        peer(input_ids=ids)
        expected = their_replay.get_router_replay_data(peer)[0]
        sampled = torch.as_tensor(feature["routed_experts"])
        assert expected.shape[1:] == (3, 2) and (found[:len(expected)] == expected).all() and len(sampled) >= len(expected) - 1 and (sampled == expected[:len(sampled)]).all()
        feature["routed_experts"] = (expected + 1) % 4  # others than the router would choose
        their_replay.set_global_router_replay_action(their_replay.RouterReplayAction.REPLAY_FORWARD)
        with mock.patch.object(their_replay.Platform, "get_local_device", return_value="cpu"):
            their_replay.set_router_replay_data(feature["routed_experts"][None], peer)
        labels = torch.as_tensor(feature["labels"])
        logps = peer(input_ids=ids).logits[0].log_softmax(-1)[labels >= 0].gather(-1, labels[labels >= 0, None])[:, 0]
        own = model.forward_only(inputs=[feature], router_replay_action=RouterReplayAction.REPLAY_FORWARD)["logps"][0]
        assert torch.allclose(own[labels >= 0], logps.detach(), atol=1e-5)
        loss, tokens = loss - logps.sum(), tokens + len(logps)
    (loss / tokens).backward()
    output = model.forward_backward(inputs=features, router_replay_action=RouterReplayAction.REPLAY_FORWARD)
    assert abs(output["loss"] - loss.item() / tokens) < 1e-5
    norm = torch.nn.utils.clip_grad_norm_(peer.parameters(), 1e9)
    assert abs(model.clip_grad_norm(1e9) / float(norm) - 1) < 1e-3, norm
    wrong = {**features[0], "routed_experts": features[0]["routed_experts"] + 4}
    for row, word in (({**features[0], "routed_experts": None}, "no routed_experts"), (wrong, "routed_experts are from"), ({**wrong, "routed_experts": [[[0]]]}, "1 x 1")):
        assert word in str(raises(hone.Error, lambda: model.forward_only(inputs=[row], router_replay_action=RouterReplayAction.REPLAY_FORWARD))), word
    assert "RECORD" in str(raises(hone.Error, lambda: model.forward_backward(inputs=features, router_replay_action=RouterReplayAction.RECORD)))
    assert "no experts" in str(raises(hone.Error, lambda: TorchSampler(NANO, engine_args={"enable_return_routed_experts": True})))


def check_what_is_not_there_says_so(folder):
    for work, word in ((lambda: TransformersModel(model_id=NANO, quantization_config={}), "quantization_config"),
                       (lambda: a_model().add_adapter_to_model("second", LoraConfig()), "'second'"),
                       (lambda: a_model().set_optimizer("Lion"), "Lion"),
                       (lambda: a_model().set_loss("InfonceLoss"), "InfonceLoss"),
                       (lambda: a_model().set_optimizer("Muon"), "adjust_lr_fn"),
                       (lambda: TransformersModel(model_id=NANO).add_adapter_to_model("a", LoraConfig(rank_pattern={"q": 2})), "rank_pattern"),
                       (lambda: Dataset().map("AlpacaProcessor"), "there is no dataset"),
                       (lambda: GRPOMetric(top_k_kl=3), "top_k_kl"),
                       (lambda: ours.initialize(mode="ray"), "groups"),
                       (lambda: ours.initialize(mode="cloud", groups=[DeviceGroup("a", 1)]), "'cloud'"),
                       (lambda: TransformersModel(model_id=NANO, device_mesh=DeviceMesh.from_sizes(dp_size=2)), "alone")):
        assert word in str(raises(hone.Error, work)), word
    raises(AttributeError, lambda: ours.nothing)


if __name__ == "__main__":
    main(Path(sys.argv[1]), globals())
