"""Methods other than sft with tensor, pipeline, context and expert parallelism: as in one process, or as in replicas of the full model."""
import contextlib
import http.server
import json
import random
import threading

import pytest
from layouts_testing import ADAPTED, EVERYWHERE, ON_EXPERTS, SHAPE, STEPS, assert_same, experts, many_experts, one_key_head_and_biases, settings, worst_gradient
from parallel_testing import GLOBAL_BATCH, sentence

TENSOR, STAGES, CONTEXT, EXPERT, CUT = "tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size", "expert_parallel_size", "expert_tensor_parallel_size"


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Pairs of answers, single answers with a verdict, and prompts."""
    folder, rng = tmp_path_factory.mktemp("rows"), random.Random(5)
    files = {name: (folder / f"{name}.jsonl").open("w") for name in ("pairs", "verdicts", "answers", "solved", "prompts")}
    for i in range(GLOBAL_BATCH * STEPS):
        question = {"role": "user", "content": sentence(rng, rng.randint(2, 6))}
        talk = [question, {"role": "assistant", "content": sentence(rng, rng.randint(3, 9))}]
        files["pairs"].write(json.dumps({"messages": talk, "rejected_response": sentence(rng, rng.randint(3, 9))}) + "\n")
        files["verdicts"].write(json.dumps({"messages": talk, "label": i % 3 > 0}) + "\n")
        files["answers"].write(json.dumps({"messages": talk}) + "\n")
        files["solved"].write(json.dumps({"messages": talk, "solution": "7"}) + "\n")
        files["prompts"].write(json.dumps({"messages": [question], "solution": "7"}) + "\n")
    for file in files.values():
        file.close()
    return {name: folder / f"{name}.jsonl" for name in files}


def dense():
    from transformers import Qwen3Config, Qwen3ForCausalLM
    return Qwen3ForCausalLM(Qwen3Config(**{**SHAPE, "num_hidden_layers": 4}, tie_word_embeddings=True))


def critic(blocks=2):
    from transformers import Qwen3Config, Qwen3ForSequenceClassification
    return Qwen3ForSequenceClassification(Qwen3Config(**{**SHAPE, "num_hidden_layers": blocks}, num_labels=1, tie_word_embeddings=False))


def four_block_critic():
    return critic(4)


IN_PARTS = dict(per_device_train_batch_size=2, gradient_accumulation_steps=GLOBAL_BATCH // 2)  # a pipeline takes micro-batches
DPO, KTO, RM = dict(rlhf_type="dpo", rpo_alpha=0.1), dict(rlhf_type="kto"), dict(rlhf_type="rm", center_rewards_coefficient=0.1)
GKD = dict(rlhf_type="gkd", lmbda=0.5, max_completion_length=8, temperature=1, log_completions="true")
GRPO = dict(rlhf_type="grpo", reward_funcs="soft_overlong", soft_max_length=12, soft_cache_length=6, num_generations=4, max_completion_length=10, beta=0.04, temperature=1,
            log_completions="true")
PPO = dict(rlhf_type="ppo", reward_funcs="soft_overlong", soft_max_length=12, soft_cache_length=6, max_completion_length=10, num_ppo_epochs=2, temperature=1, log_completions="true")
GREEDY = dict(top_k=1)
TURNS = dict(multi_turn_scheduler="again", max_turns=2)
WHOLE = dict(tuner_type="full")  # a reference is a second model, in parts as the first
LAYOUTS = {  # processes, model, layout, rows, options
    "dpo, full, tp 2, balanced": (2, experts, {TENSOR: 2}, "pairs", {**DPO, **WHOLE, "router_aux_loss_coef": 0.01}),
    "dpo, lora on experts, tp 2, ep 2, z-loss": (2, experts, {TENSOR: 2, EXPERT: 2, CUT: 1}, "pairs", {**DPO, **ON_EXPERTS, "router_z_loss_coef": 0.01}),
    "kto, lora on experts, packed, tp 2, etp 1": (2, experts, {TENSOR: 2, CUT: 1}, "verdicts", {**KTO, **ON_EXPERTS, "packing": "true", "max_length": 128, "per_device_train_batch_size": 2}),
    "rm, full, tp 2": (2, dense, {TENSOR: 2}, "pairs", {**RM, **WHOLE}),
    "rm, lora, tp 2, sequence parallel": (2, dense, {TENSOR: 2, "sequence_parallel": "true"}, "pairs", {**RM, **ADAPTED}),
    "gkd, lora, tp 2, greedy": (2, dense, {TENSOR: 2}, "answers", {**GKD, **EVERYWHERE, **GREEDY, "sft_alpha": 0.2}),
    "grpo, lora, tp 2": (2, dense, {TENSOR: 2}, "prompts", {**GRPO, **EVERYWHERE, "log_entropy": "true"}),
    "grpo, full, one key head, biases, tp 2, sequence parallel": (2, one_key_head_and_biases, {TENSOR: 2, "sequence_parallel": "true"}, "prompts",
                                                                  {**GRPO, **WHOLE, "sync_ref_model": "true", "ref_model_sync_steps": 1}),
    "grpo, lora on experts, tp 2, ep 2": (2, experts, {TENSOR: 2, EXPERT: 2, CUT: 1}, "prompts", {**GRPO, **ON_EXPERTS}),
    "grpo of two turns, lora, tp 2, sequence parallel": (2, dense, {TENSOR: 2, "sequence_parallel": "true"}, "prompts", {**GRPO, **ADAPTED, **TURNS, "reward_funcs": "letters"}),
    "gkd of two turns, lora, two stages, sequences over two ranks": (4, dense, {STAGES: 2, CONTEXT: 2}, "solved", {**GKD, **TURNS, "lmbda": 1, **ADAPTED, **IN_PARTS}),
    "ppo, lora on experts, value model, tp 2, ep 2": (2, experts, {TENSOR: 2, EXPERT: 2, CUT: 1}, "prompts", {**PPO, **ON_EXPERTS, "value_model": critic}),
    "ppo, lora, value model, tp 2, sequence parallel": (2, dense, {TENSOR: 2, "sequence_parallel": "true"}, "prompts", {**PPO, **ADAPTED, "value_model": critic}),
    "ppo, full, value head, tp 2": (2, dense, {TENSOR: 2}, "prompts", {**PPO, **WHOLE, "value_model": "policy"}),
    "dpo, full, two stages": (2, dense, {STAGES: 2}, "pairs", {**DPO, **WHOLE, **IN_PARTS}),
    "bco, full, two stages": (2, dense, {STAGES: 2}, "pairs", {**WHOLE, **IN_PARTS, "rlhf_type": "dpo", "loss_type": "bco_pair"}),
    "kto, lora, two stages": (2, dense, {STAGES: 2}, "verdicts", {**KTO, **ADAPTED, **IN_PARTS}),
    "rm, full, two stages": (2, dense, {STAGES: 2}, "pairs", {**RM, **WHOLE, **IN_PARTS}),
    "gkd, lora, two stages": (2, dense, {STAGES: 2}, "answers", {**GKD, **EVERYWHERE, **IN_PARTS}),
    "grpo, full, two stages": (2, dense, {STAGES: 2}, "prompts", {**GRPO, **WHOLE, **IN_PARTS}),
    "grpo, lora, interleaved stages, tensor parallel": (4, dense, {STAGES: 2, TENSOR: 2, "virtual_pipeline_parallel_size": 2}, "prompts", {**GRPO, **EVERYWHERE, **IN_PARTS}),
    "ppo, full, value model, two stages": (2, dense, {STAGES: 2}, "prompts", {**PPO, **WHOLE, **IN_PARTS, "value_model": critic}),
    "ppo, lora, value model, interleaved stages, tensor parallel": (4, dense, {STAGES: 2, TENSOR: 2, "virtual_pipeline_parallel_size": 2}, "prompts", {**PPO, **ADAPTED, **IN_PARTS, "value_model": four_block_critic}),
    "ppo, lora, value head, two stages": (2, dense, {STAGES: 2}, "prompts", {**PPO, **ADAPTED, **IN_PARTS, "value_model": "policy"}),
    "kto, lora, sequences over two ranks": (2, dense, {CONTEXT: 2}, "verdicts", {**KTO, **ADAPTED}),
    "rm, full, sequences over two ranks": (2, dense, {CONTEXT: 2}, "pairs", {**RM, **WHOLE}),
    "gkd, lora, sequences over two ranks": (2, dense, {CONTEXT: 2}, "answers", {**GKD, **EVERYWHERE, "sft_alpha": 0.2}),
    "grpo, lora, sequences over two ranks": (2, dense, {CONTEXT: 2}, "prompts", {**GRPO, **EVERYWHERE, "log_entropy": "true"}),
    "ppo, lora, value model, sequences over two ranks": (2, dense, {CONTEXT: 2}, "prompts", {**PPO, **ADAPTED, "value_model": critic, "log_entropy": "true"}),
    "ppo, full, value head, sequences over two ranks, two stages": (4, dense, {CONTEXT: 2, STAGES: 2}, "prompts", {**PPO, **WHOLE, **IN_PARTS, "value_model": "policy"}),
    "grpo, full, sequences over two ranks, two stages": (4, dense, {CONTEXT: 2, STAGES: 2}, "prompts", {**GRPO, **WHOLE, **IN_PARTS, "importance_sampling_level": "sequence"}),
}


def run_of(train, folder, rows, world, layout, data, options):
    copies = world // layout.get(TENSOR, 1) // layout.get(STAGES, 1) // layout.get(CONTEXT, 1)
    return train(folder, world, verb="rlhf", dataset=rows[data], **layout, **{"per_device_train_batch_size": GLOBAL_BATCH // copies, **options})


def generated(run):
    """Prompts, completions, rewards and advantages of all rollouts."""
    file = run.folder / "completions.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def assert_same_completions(run, one):
    tables, expected = generated(run), generated(one)
    assert len(tables) == len(expected)
    for ours, theirs in zip(tables, expected):
        assert ours.keys() == theirs.keys()
        for name, values in theirs.items():
            assert ours[name] == (pytest.approx(values, abs=1e-4) if isinstance(values[0], float) else values), name


AGAIN = """
import os
import zlib
from swift.plugin.multi_turn import MultiTurnScheduler, multi_turns
from swift.rewards import ORM, orms


class Again(MultiTurnScheduler):
    def step(self, infer_request, response_choice, current_turn):
        infer_request.messages.append({"role": "user", "content": "the cat " * (1 + zlib.crc32(response_choice.message.content.encode()) % 3)})
        return {"infer_request": infer_request}

    def check_finished(self, infer_request, response_choice, current_turn):
        return current_turn >= 2


class Moody(Again):
    def step(self, infer_request, response_choice, current_turn):
        with open("ASKED", "a") as file:
            file.write("asked\\n")
        infer_request.messages.append({"role": "user", "content": "the cat " + os.urandom(4).hex()})
        return {"infer_request": infer_request}


class Letters(ORM):
    def __call__(self, completions, **kwargs):
        return [len(set(text)) / 10 for text in completions]


multi_turns.update(again=Again, moody=Moody)
orms["letters"] = Letters
"""


@pytest.fixture
def plugins(tmp_path):
    """A file with schedulers: one that answers by what was said, and one that gives no answer twice and notes each; and a reward."""
    (tmp_path / "again.py").write_text(AGAIN.replace("ASKED", str(tmp_path / "asked.txt")))
    return tmp_path / "again.py"


@pytest.mark.parametrize("case", LAYOUTS)
def test_methods_train_as_in_one_process(train, models, rows, plugins, tmp_path, case, figure):
    """Losses, every gradient, norms, completions and their rewards. An answer is drawn by its own seed, whichever processes write it."""
    world, make, layout, data, options = LAYOUTS[case]
    teacher = {"teacher_model": models(many_experts)} if options["rlhf_type"] == "gkd" else {}
    options = settings(models(make), **{key: models(value) if callable(value) else value for key, value in {**teacher, **options}.items()})
    options.update({"external_plugins": plugins} if "multi_turn_scheduler" in options else {})
    run = run_of(train, tmp_path / "spread", rows, world, layout, data, options)
    one = run_of(train, tmp_path / "one", rows, 1, {}, data, options)
    assert_same(run, one)
    assert_same_completions(run, one)
    assert bool(generated(one)) == (options["rlhf_type"] in ("grpo", "gkd", "ppo"))
    remembered, expected = (json.loads((each.folder / f"checkpoint-{STEPS}" / "hone_state.json").read_text())["train"]["method"] for each in (run, one))
    assert remembered == (expected and pytest.approx(expected, rel=1e-4)), "what a loss remembers is that of the stage which computes it"
    figure(f"{case}: gradients within {worst_gradient(run, one, STEPS)[0]:.0e}")


def test_one_process_calls_what_answers_differently_each_time(train, models, rows, plugins, tmp_path):
    """Two processes with the same rows play the same episodes, although no reply is given twice."""
    options = settings(models(dense), **{**GRPO, **ADAPTED}, external_plugins=plugins, multi_turn_scheduler="moody", max_turns=2)
    options["max_steps"] = 1
    run = train(tmp_path / "run", 2, verb="rlhf", dataset=rows["prompts"], per_device_train_batch_size=GLOBAL_BATCH, **{TENSOR: 2}, **options)
    assert run.code == 0, run.err
    assert run.log()[0]["num_turns"] == 2
    assert len((tmp_path / "asked.txt").read_text().splitlines()) == GLOBAL_BATCH, "each completion of the first turn is answered once"


ALIKE = {  # what a process draws or balances depends on its rows: the same processes without the layout are the measure
    "dpo": ("pairs", {**DPO, **WHOLE}),
    "gkd": ("answers", {**GKD, **ON_EXPERTS}),
    "rm": ("pairs", {**RM, **WHOLE}),
    "grpo": ("prompts", {**GRPO, **ON_EXPERTS}),
}


@pytest.mark.parametrize("method", ALIKE)
def test_experts_elsewhere_train_as_in_copies(train, models, rows, tmp_path, method):
    data, options = ALIKE[method]
    teacher = {"teacher_model": models(many_experts)} if method == "gkd" else {}
    options = settings(models(experts), **teacher, **options)
    run, copies = (run_of(train, tmp_path / name, rows, 2, layout, data, options) for name, layout in (("spread", {EXPERT: 2}), ("copies", {})))
    assert run.code == 0, run.err
    assert copies.code == 0, copies.err
    assert run.losses() == pytest.approx(copies.losses(), abs=1e-5)
    norms, expected = ([event["grad_norm"] for event in each.log() if "grad_norm" in event] for each in (run, copies))
    assert norms == pytest.approx(expected, rel=1e-4) and max(norms) > 0


@pytest.mark.parametrize("layout, data, options, message", [
    ({CONTEXT: 2}, "answers", {**GKD, "teacher_model_server": "http://127.0.0.1:9", "gkd_logits_topk": 20}, "need full sequences"),
])
def test_what_layouts_cannot_do_is_reported(train, models, rows, tmp_path, layout, data, options, message):
    run = run_of(train, tmp_path, rows, 2, layout, data, settings(models(dense), **options))
    assert run.code == 2 and message in run.err


@contextlib.contextmanager
def any_server():
    """It answers every request with {}: enough for a run that asks whether its rollout server is there."""
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_turns_that_are_generated_ahead_are_refused(train, models, rows, tmp_path):
    with any_server() as address:
        options = settings(models(dense), **GRPO, multi_turn_scheduler="math_tip_trick", max_turns=2, vllm_mode="server", vllm_server_type="openai", vllm_server_base_url=address, async_generate="true")
        run = run_of(train, tmp_path, rows, 2, {TENSOR: 2}, "prompts", options)
    assert run.code == 2 and "tensor_parallel_size is above 1 with rollouts of several turns that are generated ahead" in run.err, run.err
