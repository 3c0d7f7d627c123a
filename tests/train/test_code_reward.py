"""Programs that a model wrote, as a reward: those that work are worth what they pass, and those that mean harm end with a name."""
import json
import os
import socket

import pytest
from train_testing import ROOT


def traced(hone, tmp_path, rows, allowed=True, timeout=2):
    """One call of the reward for each row, so that the log says how each program ended."""
    more = {"sandbox": {"timeout": timeout, "memory_limit": 256 << 20}} if allowed else {}
    (tmp_path / "asked.json").write_text(json.dumps({"rewards": [{"functions": ["code"], "rows": [row], **more} for row in rows]}))
    return hone("policy-trace", tmp_path / "asked.json")


def row(program, *cases):
    return {"text": f"Here it is:\n```python\n{program}\n```\nDone.", "test_cases": list(cases) or [{"input": "", "output": "ok"}]}


def test_programs_are_worth_what_they_pass(hone, tmp_path):
    double = "print(int(input()) * 2)"
    rows = [row(double, {"input": "3", "output": "6\n"}, {"input": "4", "output": "9"}), row("def f(x):\n    return x + 1", "assert f(1) == 2", "assert f(2) == 3"),
            row("import threading, math\nt = threading.Thread(target=lambda: print(' ok '))\nt.start()\nt.join()"), {"text": "no program", "test_cases": ["pass"]},
            row("def f(x):\n    return x\nimport sys\nsys.exit(0)", "assert f(1) == 2"), row("import os\nos._exit(0)", "assert f(1) == 2"),  # they end before the check
            {"text": "```python\nprint('no')\n```\n```bash\nls\n```\n```\nprint('ok')\n```", "test_cases": json.dumps([{"input": "", "output": "ok"}])}]
    done = traced(hone, tmp_path, rows)
    assert done.returncode == 0, done.stderr
    assert [found["Code"][0] for found in json.loads(done.stdout)["rewards"]] == [0.5, 1, 1, 0, 0, 0, 1]
    assert "ran 2 programs: 1 gave another result; 1 passed" in done.stderr and done.stderr.count("ran 1 program: 1 ended before its checks") == 2


def test_harm_ends_with_a_name(hone, tmp_path):
    (tmp_path / "secret").write_text("the secret")
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.2)
    hostile = {
        "import os\nwhile True: os.fork()": "PermissionError",
        "import subprocess\nsubprocess.run(['/usr/bin/id'])": "PermissionError",
        f"import socket\nsocket.create_connection(('127.0.0.1', {listener.getsockname()[1]}))": "PermissionError",
        "while True: pass": "took longer than 2 seconds",
        "import os, time\nos.close(1); os.close(2); time.sleep(60)": "took longer than 2 seconds",
        "while True: print('x' * 1000)": "wrote more than 65536 bytes",
        "import sys\nwhile True: sys.stderr.write('x' * 1000)": "took longer than 2 seconds",
        "print(open('/etc/passwd').read())": "FileNotFoundError",
        f"print(open('{tmp_path}/secret').read())": "FileNotFoundError",
        "print(open('/proc/self/environ').read())": "FileNotFoundError",
        "open('/usr/x', 'w')": "Read-only file system",
        "f = open('/tmp/x', 'wb')\nwhile True: f.write(b'x' * 1000000)": "File too large",
        "i = 0\nwhile True:\n    i += 1\n    open(f'/tmp/{i}', 'wb').write(b'x' * 1000000)": "No space left on device",
        "x = bytearray(4 << 30)": "MemoryError",
        "import ctypes\nctypes.string_at(0)": "was killed by signal 11",
        "raise SystemExit(3)": "ended with exit code 3",
        "import os\nos.kill(1, 9); os.kill(-1, 9)": "ProcessLookupError",
        "import ctypes\nprint(ctypes.CDLL(None).unshare(0x10000000)); 1 // 0": "ZeroDivisionError"}
    done = traced(hone, tmp_path, [row(program) for program in hostile])
    assert done.returncode == 0, done.stderr
    assert all(found["Code"] == [0] for found in json.loads(done.stdout)["rewards"])
    lines = [line for line in done.stderr.splitlines() if "the reward code ran" in line]
    assert len(lines) == len(hostile)
    for (program, end), line in zip(hostile.items(), lines):
        assert end in line, (program, line)
    assert "the secret" not in done.stderr + done.stdout
    with pytest.raises(TimeoutError):
        listener.accept()
    assert not os.path.exists("/usr/x")


def test_nothing_runs_unless_it_is_allowed(hone, tmp_path):
    done = traced(hone, tmp_path, [row("print('ok')")], allowed=False)
    assert done.returncode == 2 and "--code_sandbox bubblewrap" in done.stderr
    done = traced(hone, tmp_path, [{"text": "```\nprint(1)\n```"}])
    assert done.returncode == 3 and "the row has no test cases" in done.stderr


def test_rows_without_test_cases_are_skipped_before_training(hone, tmp_path):
    question = [{"role": "user", "content": "Print 1."}]
    rows = [{"messages": question, "test_cases": cases} for cases in ([{"input": "", "output": "1"}], [], [5], ["assert True"])]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = hone("rlhf", "--rlhf_type", "grpo", "--model", ROOT / "models/nano", "--dataset", tmp_path / "rows.jsonl", "--reward_funcs", "code", "--code_sandbox", "bubblewrap", "--num_generations", 2, "--per_device_train_batch_size", 4,
                "--max_completion_length", 4, "--max_steps", 1, "--save_strategy", "no", "--output_dir", tmp_path / "out")
    assert done.returncode == 0 and "skipped 2 of 4 rows (missing columns: 1, wrong type: 1)" in done.stderr, done.stderr
    assert "a test case without the text \"input\"" in done.stderr
