"""Reward servers: allowed addresses, valid responses, and timeouts."""
import json
from contextlib import contextmanager

import pytest
from local_server import Handler, serving


@contextmanager
def judge(*replies):
    """Gives one reply after the other, the last for ever: (status, body or headers)."""
    asked = []

    class Judge(Handler):
        def do_POST(self):
            asked.append((self.path, self.question()))
            status, content = replies[min(len(asked), len(replies)) - 1]
            self.reply(status, content) if isinstance(content, str) else self.reply(status, headers=content)

    with serving(Judge) as address:
        yield address, asked


@pytest.fixture
def rewards(hone, tmp_path):
    def ask(*functions, **environment):
        path = tmp_path / "asked.json"
        path.write_text(json.dumps({"rewards": [{"functions": functions, "rows": [{"text": "one"}, {"text": "two"}]}]}))
        return hone("policy-trace", path, env=environment)

    return ask


def test_answers_are_read_and_names_kept_apart(rewards):
    with judge((503, ""), (200, "[1.5, null]"), (200, '{"rewards": [2, 3]}')) as (address, asked):
        done = rewards(f"{address}/v1/score", f"{address}/other/score/", http_proxy="http://127.0.0.1:9", HTTP_PROXY="http://127.0.0.1:9")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rewards"] == [{"score": [1.5, None], "score-2": [2, 3]}]
    assert [path for path, _ in asked] == ["/v1/score", "/v1/score", "/other/score/"]
    assert asked[0][1]["completions"] == ["one", "two"]


@pytest.mark.parametrize("reply, words", [((302, {"Location": "http://localhost:9/elsewhere"}), "redirects"), ((200, "[1]"), "1 reward for 2 completions"),
                                          ((200, '[1, "a"]'), "among the rewards"), ((200, "[NaN, 1]"), "NaN is not JSON"), ((404, ""), "it answers 404")])
def test_anything_else_ends_with_a_message(rewards, reply, words):
    with judge(reply) as (address, asked):
        done = rewards(address.replace("http://", "http://me:secret@") + "/score?key=hidden")
    assert done.returncode == 1 and words in done.stderr, done.stderr
    assert len(asked) == 1 and "secret" not in done.stderr and "hidden" not in done.stderr


@pytest.mark.parametrize("address", ["http://127.example.com/x", "http://example.com?x@localhost/", "http://localhost@example.com/x", "http://127.0.0.1.example.com/", "http://10.0.0.1/x"])
def test_other_machines_are_contacted_only_with_permission(rewards, address, figure):
    done = rewards(address)
    assert done.returncode == 2 and "--remote_rewards true" in done.stderr, done.stderr
    figure("5 spellings of other machines refused")
