"""A full disk: clients are told, nothing that was acknowledged is lost, and no file stays that nobody can name."""
import pytest
from tinker_testing import ALICE, MODEL, TinkerServer


def a_model(server):
    session = server.call("POST", "create_session", {"tags": [], "sdk_version": "0.16.1"})[1]["session_id"]
    return server.call("POST", "create_model", {"session_id": session, "model_seq_id": 0, "base_model": MODEL, "lora_config": {"rank": 2}})[1]["model_id"]


def result(server, model, seq):
    while (answer := server.call("POST", "retrieve_future", {"request_id": f"{model}:{seq}"})[1]).get("type") == "try_again":
        pass
    return answer


@pytest.mark.parametrize("fault", ("checkpoint.write:enospc:1", "tinker.add_checkpoint:enospc:1"))  # of the files; of the row that names them
def test_a_save_says_why_and_leaves_no_files(tmp_path, fault):
    server = TinkerServer(tmp_path, env={"HONE_FAULT": fault})
    try:
        model = a_model(server)
        saves = (("save_weights", {"path": "first"}), ("save_weights", {"path": "first"}), ("save_weights_for_sampler", {"sampling_session_seq_id": 0}))
        answers = []
        for seq, (kind, name) in enumerate(saves, 1):
            assert server.call("POST", kind, {"model_id": model, "seq_id": seq, **name})[0] == 200
            answers.append(result(server, model, seq))
        assert answers[0]["category"] == "server" and "disk is full: nothing was saved" in answers[0]["error"], answers
        assert answers[1]["path"] == f"tinker://{model}/weights/first" and "error" not in answers[2], answers
        assert len(list((tmp_path / "state/checkpoints").iterdir())) == len(list((tmp_path / "state/samplers").iterdir())) == 1
    finally:
        assert server.stop() == 0, server.log()


def test_a_request_that_cannot_be_stored_is_sent_again(tmp_path):
    server = TinkerServer(tmp_path, env={"HONE_FAULT": "tinker.commit_request:enospc:1"})
    try:
        model = a_model(server)
        step = {"model_id": model, "seq_id": 1, "adam_params": {}}
        status, headers, text = server.request("POST", "/api/v1/optim_step", step, headers={"X-API-Key": ALICE})
        assert status == 503 and int(headers["Retry-After"]) > 0 and "disk is full" in text and "cannot rollback" not in server.log()
        assert server.call("POST", "optim_step", step)[0] == 200
        assert result(server, model, 1)["metrics"] == {"grad_norm": 0.0}
    finally:
        assert server.stop() == 0, server.log()


def test_a_checkpoint_can_be_deleted_on_a_full_disk(tmp_path):
    server = TinkerServer(tmp_path, env={"HONE_FAULT": "tinker.commit_removal:enospc:1"})
    try:
        model = a_model(server)
        assert server.call("POST", "save_weights", {"model_id": model, "seq_id": 1, "path": "first"})[0] == 200
        assert result(server, model, 1)["path"] == f"tinker://{model}/weights/first"
        assert server.call("DELETE", f"training_runs/{model}/checkpoints/weights/first")[0] == 200
        assert not list((tmp_path / "state/checkpoints").iterdir())
        assert server.call("DELETE", f"training_runs/{model}/checkpoints/weights/first")[0] == 404
    finally:
        assert server.stop() == 0, server.log()
