"""Tenants of `hone serve-tinker` over plain HTTP, with adapters of different ranks and layers, on any device."""
import json
import re
import time

import pytest
from serve_testing import MODEL, Server

KEY = {"X-API-Key": "tml-gpu-0123456789"}
KINDS = [{"rank": 4}, {"rank": 16, "train_unembed": False}, {"rank": 8, "train_mlp": False}, {"rank": 24, "train_attn": False}]
STEPS = 3


class Tenants(Server):
    def call(self, path, body):
        status, _, text = self.post(f"/api/v1/{path}", body, headers=KEY, timeout=120)
        assert status in (200, 408), text
        return json.loads(text)

    def result(self, request_id):
        deadline = time.monotonic() + 300
        while (answer := self.call("retrieve_future", {"request_id": request_id})).get("type") == "try_again":
            assert time.monotonic() < deadline, f"no answer to {request_id}\n{self.log()}"
        assert "error" not in answer, f"{answer}\n{self.log()}"
        return answer

    def runs_a_pass(self):
        text = self.get("/metrics", headers=KEY)[2]
        return [float(re.search(rf"^hone_tinker_{name} (\S+)$", text, re.M)[1]) for name in ("runs_in_passes_total", "passes_total")]

    def losses(self, chosen):
        """Of a few steps of each run, all of them sent before any is waited for."""
        session = self.call("create_session", {"tags": [], "sdk_version": "test"})["session_id"]
        runs = []
        for index, kind in chosen:
            made = self.call("create_model", {"session_id": session, "model_seq_id": index, "base_model": str(MODEL), "lora_config": {"seed": index, **kind}})
            runs.append((self.result(made["request_id"])["model_id"], [(7 * i + 11 * index) % 256 for i in range(17 + 30 * index)]))
        sent = [[] for _ in runs]
        for step in range(STEPS):
            for requests, (run, ids) in zip(sent, runs):
                datum = {"model_input": {"chunks": [{"type": "encoded_text", "tokens": ids[:-1]}]},
                         "loss_fn_inputs": {"target_tokens": {"data": ids[1:], "dtype": "int64"}, "weights": {"data": [1.0] * (len(ids) - 1), "dtype": "float32"}}}
                requests.append(self.call("forward_backward", {"model_id": run, "seq_id": 2 * step + 1, "forward_backward_input": {"data": [datum], "loss_fn": "cross_entropy"}})["request_id"])
                self.call("optim_step", {"model_id": run, "seq_id": 2 * step + 2, "adam_params": {"learning_rate": 2e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8}})
        return [[self.result(request)["metrics"]["loss:sum"] for request in requests] for requests in sent]


def expect_runs_together_as_alone(folder, device, dtype="float32", tolerance=2e-5, verb="serve-tinker"):
    server = Tenants("--tinker_dir", folder / "state", "--api_key", KEY["X-API-Key"], "--torch_dtype", dtype, "--device", device, verb=verb)
    try:
        together = server.losses(list(enumerate(KINDS)))
        runs, passes = server.runs_a_pass()
        assert runs > passes, "no pass was shared"
        for index, kind in enumerate(KINDS):
            alone = server.losses([(index, kind)])[0]
            assert together[index] == pytest.approx(alone, rel=tolerance)
            assert alone[-1] < alone[0]
        return together
    finally:
        assert server.stop() == 0, server.log()
