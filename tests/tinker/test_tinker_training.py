"""Training through the SDK gives what transformers and PEFT give for the same data."""
import sys

import pytest
import torch
from tinker import types
from tinker_testing import ALICE, BOB, MODEL, ROOT, TinkerServer, base_model, datum, lora_weights, peft_model, rows, saved_weights, target_logprobs

sys.path.append(str(ROOT / "tests/python"))
from python_environment import make_small_model  # noqa: E402

ADAM = types.AdamParams(learning_rate=3e-3, beta1=0.9, beta2=0.95, eps=1e-5, weight_decay=0.01, grad_clip_norm=1.0)
RAW = types.AdamParams(learning_rate=1e6, beta1=0.0, beta2=0.0, eps=1e6)  # the first step is minus the gradient


@pytest.fixture(scope="module")
def trained(server, tokenizer, tmp_path_factory):
    """Four supervised steps: the client, its losses, the PEFT folder it began with, the path and the folder it ended with."""
    folder = tmp_path_factory.mktemp("trained")
    client = server.service().create_lora_training_client(base_model=MODEL, rank=8, seed=7).result()
    start = client.save_weights_for_sampler("start").result().path
    data = [datum(tokens, targets, weights=[1.0] * len(targets)) for tokens, targets in rows(tokenizer)]
    losses, steps = [], []
    for _ in range(4):  # both verbs are sent before either is answered
        steps.append((client.forward_backward(data, "cross_entropy"), client.optim_step(ADAM)))
    for forward, step in steps:
        losses.append(forward.result().metrics["loss:sum"])
        assert step.result().metrics["grad_norm"] > 0
    state, end = client.save_state("end").result().path, client.save_weights_for_sampler("end").result().path
    return {"client": client, "losses": losses, "start": server.archive(start, folder / "start"), "state": state, "end": server.archive(end, folder / "end"), "sampler": end}


def peft_losses(model, tokenizer, steps):
    """Of as many supervised steps."""
    # With an epsilon above the rounding of gradients that are nearly zero, which Adam would blow up.
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-3, betas=(0.9, 0.95), eps=1e-5, weight_decay=0.01)
    losses = []
    for _ in range(steps):
        loss = -sum(target_logprobs(model, tokens, targets).sum() for tokens, targets in rows(tokenizer))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    return losses


def test_supervised_training_equals_peft(trained, tokenizer):
    model = peft_model(trained["start"])
    losses = peft_losses(model, tokenizer, 4)
    assert trained["losses"] == pytest.approx(losses, rel=1e-5)
    ours = saved_weights(trained["end"])
    for name, value in lora_weights(model).items():
        torch.testing.assert_close(ours[name], value.detach(), rtol=2e-3, atol=1e-4)


def policy_inputs(model, tokens, targets):
    """Old log-probabilities near the present ones; the first half of the positions is a prompt, sent as zeros."""
    torch.manual_seed(len(tokens))
    with torch.no_grad():
        old = target_logprobs(model, tokens, targets) + 0.4 * torch.randn(len(targets))
    advantages = torch.randn(len(targets))
    prompt = len(targets) // 2
    old[:prompt] = 0
    advantages[:prompt] = 0
    return old, advantages


LOSSES = {
    "importance_sampling": ({}, lambda lp, q, a: -((lp - q).exp() * a).sum()),
    "ppo": ({"clip_low_threshold": 0.9, "clip_high_threshold": 1.1}, lambda lp, q, a: -torch.min((lp - q).exp() * a, (lp - q).exp().clamp(0.9, 1.1) * a).sum()),
    "cispo": ({"clip_low_threshold": 0.7, "clip_high_threshold": 1.3}, lambda lp, q, a: -((lp - q).exp().clamp(0.7, 1.3).detach() * lp * a).sum()),
    "dro": ({"beta": 0.3}, lambda lp, q, a: -(lp * a - 0.15 * ((lp - q) * ((a != 0) | (q != 0))) ** 2).sum()),
}


@pytest.fixture(scope="module")
def gradient_of(server, trained, tmp_path_factory):
    """gradient_of(forward): loss and gradient of one forward_backward on the trained weights, read off the step that follows."""
    def measure(forward, name):
        client = server.service().create_training_client_from_state(trained["state"]).result()
        loss = forward(client).result().metrics["loss:sum"]
        client.optim_step(RAW).result()
        path = client.save_weights_for_sampler("after").result().path
        after, before = saved_weights(server.archive(path, tmp_path_factory.mktemp(name))), saved_weights(trained["end"])
        return loss, {key: before[key] - after[key] for key in before}
    return measure


def assert_same_gradient(found, model):
    for name, value in lora_weights(model).items():
        torch.testing.assert_close(found[name], value.grad, rtol=5e-3, atol=2e-4, msg=lambda text: f"{name}: {text}")


@pytest.mark.parametrize("name", LOSSES)
def test_policy_losses_equal_their_formulas(name, trained, gradient_of, tokenizer):
    config, formula = LOSSES[name]
    model = peft_model(trained["end"])
    inputs = [(tokens, targets, *policy_inputs(model, tokens, targets)) for tokens, targets in rows(tokenizer)]
    expected = sum(formula(target_logprobs(model, tokens, targets), old, advantages) for tokens, targets, old, advantages in inputs)
    expected.backward()
    data = [datum(tokens, targets, logprobs=old, advantages=advantages) for tokens, targets, old, advantages in inputs]
    loss, gradient = gradient_of(lambda client: client.forward_backward(data, name, config or None), name)
    assert loss == pytest.approx(expected.item(), rel=1e-4, abs=1e-4)
    assert_same_gradient(gradient, model)


def test_custom_loss_by_its_gradients(trained, gradient_of, tokenizer):
    model = peft_model(trained["end"])
    expected = sum((target_logprobs(model, tokens, targets) ** 2).mean() for tokens, targets in rows(tokenizer))
    expected.backward()
    data = [datum(tokens, targets) for tokens, targets in rows(tokenizer)]

    def squares(_, logprobs):
        loss = sum((each ** 2).mean() for each in logprobs)
        return loss, {"squares": loss.item()}

    loss, gradient = gradient_of(lambda client: client.forward_backward_custom(data, squares), "custom")
    assert loss == pytest.approx(expected.item(), rel=1e-4)
    assert_same_gradient(gradient, model)


def test_preference_pairs_equal_their_formula(server, trained, gradient_of, tokenizer):
    """Twinkle's DPO: references of the base model, means over pairs, a cross-entropy of the chosen answers."""
    base, model = base_model(), peft_model(trained["end"])
    masks = [torch.arange(len(targets)) >= 3 for _, targets in rows(tokenizer)]
    data = [datum(tokens, targets, weights=mask.float()) for (tokens, targets), mask in zip(rows(tokenizer), masks)]
    references = trained["client"].forward(data, "cross_entropy", {"disable_lora": True}).result().loss_fn_outputs
    rewards, chosen, tokens = [], 0, 0
    for number, (row, mask) in enumerate(zip(rows(tokenizer), masks)):
        with torch.no_grad():
            reference = target_logprobs(base, *row)
        torch.testing.assert_close(references[number]["logprobs"].to_torch(), reference, rtol=1e-4, atol=1e-4)
        data[number].loss_fn_inputs["ref_logps"] = references[number]["logprobs"]
        logps = target_logprobs(model, *row)[mask]
        rewards.append(0.2 * (logps.sum() - reference[mask].sum()))
        if number % 2 == 0:
            chosen, tokens = chosen + logps.sum(), tokens + len(logps)
    margins = torch.stack(rewards)[0::2] - torch.stack(rewards)[1::2]
    expected = -torch.nn.functional.logsigmoid(margins).mean() - 0.5 * chosen / tokens
    expected.backward()
    loss, gradient = gradient_of(lambda client: client.forward_backward(data, "importance_sampling", {"dpo_beta": 0.2, "dpo_sft_weight": 0.5}), "pairs")
    assert loss == pytest.approx(expected.item(), rel=1e-4)
    assert_same_gradient(gradient, model)
    client = server.service().create_training_client_from_state(trained["state"]).result()
    metrics = client.forward_backward(data, "importance_sampling", {"dpo_beta": 0.2}).result().metrics
    assert metrics["rewards/margins:mean"] == pytest.approx(margins.mean().item(), abs=1e-3) and metrics["rewards/accuracies:mean"] == (margins > 0).float().mean().item()
    step = client.optim_step(types.AdamParams(learning_rate=0.0)).result().metrics
    assert step["rewards/margins"] == pytest.approx(metrics["rewards/margins:mean"]) and step["grad_norm"] > 0
    assert "rewards/margins" not in client.optim_step(types.AdamParams(learning_rate=0.0)).result().metrics


def test_several_targets_at_a_position(trained, tokenizer):
    """Soft targets: weights of several tokens at each position, dense and sparse, as distillation sends them."""
    model = peft_model(trained["end"])
    tokens, targets = rows(tokenizer)[0]
    choices = torch.stack([torch.tensor(targets), *(torch.arange(len(targets)) + offset for offset in range(11))], 1)
    weights = torch.zeros(choices.shape)
    weights[1::2, :2] = torch.tensor([0.75, 0.25])
    with torch.no_grad():
        logprobs = model(torch.tensor([tokens])).logits[0].log_softmax(-1).gather(1, choices)
    dense = types.Datum(model_input=types.ModelInput.from_ints(tokens), loss_fn_inputs={"target_tokens": types.TensorData.from_torch(choices), "weights": types.TensorData.from_torch(weights)})
    sparse = types.Datum(model_input=types.ModelInput.from_ints(tokens), loss_fn_inputs={"target_tokens": types.TensorData.from_torch(choices), "weights": types.TensorData.from_torch_sparse(weights)})
    assert sparse.loss_fn_inputs["weights"].sparse_crow_indices is not None
    one = datum(tokens, targets, weights=[1.0] * len(targets))
    result = trained["client"].forward([dense, one, sparse], "cross_entropy").result()
    assert result.metrics["loss:sum"] == pytest.approx(-2 * (weights * logprobs).sum().item() - logprobs[:, 0].sum().item(), rel=1e-4)
    shapes = [list(output["logprobs"].shape) for output in result.loss_fn_outputs]
    assert shapes == [[len(tokens), 12], [len(tokens)], [len(tokens), 12]]
    torch.testing.assert_close(result.loss_fn_outputs[2]["logprobs"].to_torch(), logprobs, rtol=1e-4, atol=1e-4)


def test_state_continues_where_it_was_saved(server, trained, tokenizer):
    """With the optimizer's state, the next losses are those of the run that went on."""
    data = [datum(tokens, targets, weights=[1.0] * len(targets)) for tokens, targets in rows(tokenizer)]

    def go_on(client):
        losses = []
        for _ in range(2):
            losses.append(client.forward_backward(data, "cross_entropy").result().metrics["loss:sum"])
            client.optim_step(ADAM).result()
        return losses

    again = go_on(server.service().create_training_client_from_state_with_optimizer(trained["state"]).result())
    assert go_on(trained["client"]) == again


@pytest.fixture(scope="module")
def mixture(tmp_path_factory):
    """A server of a small mixture of experts, and the model's folder."""
    folder = tmp_path_factory.mktemp("mixture")
    make_small_model(folder / "experts", num_experts=8, num_experts_per_tok=2, moe_intermediate_size=16, norm_topk_prob=True)
    server = TinkerServer(folder, model=str(folder / "experts"))
    yield server, folder / "experts"
    assert server.stop() == 0, server.log()


def test_experts_train_as_with_peft(mixture, tokenizer, tmp_path):
    """Two tenants with the SDK's defaults, whose requests wait together: PEFT's losses with target_parameters, and samplers of what was trained."""
    server, folder = mixture
    data = [datum(tokens, targets, weights=[1.0] * len(targets)) for tokens, targets in rows(tokenizer)]
    tenants = [(key, server.service(key).create_lora_training_client(base_model=str(folder), rank=4, seed=seed).result()) for seed, key in enumerate((ALICE, BOB))]
    starts = [server.archive(client.save_weights_for_sampler("start").result().path, tmp_path / key, key) for key, client in tenants]
    steps = [[(client.forward_backward(data, "cross_entropy"), client.optim_step(ADAM)) for _ in range(3)] for _, client in tenants]
    losses = [[forward.result().metrics["loss:sum"] for forward, _ in each] for each in steps]
    tokens, targets = rows(tokenizer)[1]
    samplers = [client.save_weights_and_get_sampling_client().result() for _, client in tenants]
    scores = [sampler.compute_logprobs(types.ModelInput.from_ints([*tokens, targets[-1]])) for sampler in samplers]  # in one batch
    for start, found, score in zip(starts, losses, scores):
        model = peft_model(start, folder)
        assert any("mlp.experts" in name for name in lora_weights(model))
        assert found == pytest.approx(peft_losses(model, tokenizer, 3), rel=1e-5)
        assert score.result()[1:] == pytest.approx(target_logprobs(model, tokens, targets).tolist(), abs=3e-4)


def test_experts_report_their_balance(mixture, tokenizer):
    """The SDK's metrics of a mixture of experts, by their definitions there, out of the router logits that transformers computes."""
    server, folder = mixture
    client, other = (server.service().create_lora_training_client(base_model=str(folder), rank=4, train_mlp=False).result() for _ in range(2))
    data = [datum(tokens, targets, weights=[1.0] * len(targets)) for tokens, targets in rows(tokenizer)]
    futures = [client.forward_backward(data, "cross_entropy"), other.forward_backward(data[:1], "cross_entropy")]  # which may share a pass
    metrics, one = (future.result().metrics for future in futures)
    model = base_model(folder)
    counts = 0
    for number, (tokens, targets) in enumerate(rows(tokenizer)):
        chosen = [logits.topk(2).indices.flatten() for logits in model(torch.tensor([tokens]), output_router_logits=True).router_logits]
        counts = counts + torch.stack([torch.bincount(layer, minlength=8) for layer in chosen]).double()
        if number == 0:
            assert one["e_frac_with_tokens:mean"] == pytest.approx((counts > 0).double().mean().item())
    even = counts.mean(1, keepdim=True)
    violation = (counts - even) / even
    expected = {"e_frac_with_tokens:mean": (counts > 0).double().mean(), "e_frac_oversubscribed:mean": (counts > even).double().mean(), "e_max_violation:mean": violation.amax(1).mean(),
                "e_max_violation:max": violation.max(), "e_min_violation:mean": violation.amin(1).mean()}
    assert {name: metrics[name] for name in expected} == {name: pytest.approx(value.item()) for name, value in expected.items()}
    assert metrics["loss:sum"] == pytest.approx(-sum(target_logprobs(model, *row).sum().item() for row in rows(tokenizer)), rel=1e-5)
