"""The chat of a terminal, typed at a terminal: keys edit the line, earlier lines come back, and no escape code reaches the model."""
import fcntl
import os
import pty
import re
import select
import subprocess
import termios
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from tiny_models import tiny_model

ROOT = Path(__file__).resolve().parents[2]
NANO = ROOT / "models/nano"
PROMPT = "<<< "
ANSWERED = "-" * 50 + "\r\n\x1b[?2004h"  # after an answer, when the next line is read


class Person:
    """Types at the program and reads its screen."""

    def __init__(self, fd):
        self.fd, self.screen = fd, ""

    def read_until(self, words, seconds=120):
        end = time.time() + seconds
        while words not in self.screen:
            assert time.time() < end, f"{words!r} did not come: {self.screen!r}"
            if select.select([self.fd], [], [], 0.1)[0]:
                self.screen += os.read(self.fd, 65536).decode(errors="replace")

    def type(self, keys, until):
        self.screen = ""
        os.write(self.fd, keys.encode())
        self.read_until(until)


@contextmanager
def chat(hone, history, model=NANO, tokens=4, **environment):
    main, side = pty.openpty()
    env = {**os.environ, "NO_COLOR": "1", "TERM": "xterm", "HONE_HISTORY": str(history), **environment}
    process = subprocess.Popen([str(hone.path), "infer", "--model", str(model), "--max_new_tokens", str(tokens), "--temperature", "0"], stdin=side, stdout=side, stderr=subprocess.DEVNULL,
                               env=env, start_new_session=True, preexec_fn=lambda: fcntl.ioctl(side, termios.TIOCSCTTY, 0))  # its terminal, whose Ctrl-C it gets
    os.close(side)
    person = Person(main)
    try:
        person.read_until(PROMPT)
        yield person
        os.write(main, b"/exit\r")
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(main)


def test_keys_history_completion_and_pastes(hone, tmp_path):
    history = tmp_path / "state/history"
    with chat(hone, history) as person:
        assert "Tab completes" in person.screen
        person.type("/hlp\x1b[D\x1b[De\r", "/reset-system")  # two to the left: /help
        person.type("/h\t\r", "/reset-system")
        person.type("hello\r", ANSWERED)
        person.type("\x1b[200~one\rtwo\x1b[201~\r", ANSWERED)  # one turn, not two
        assert person.screen.count("-" * 50) == 1
        person.type("\x1b[A\x1b[A\r", ANSWERED)
    lines = history.read_text().splitlines()
    assert lines.count("/help") >= 1 and "hello" in lines and "one\\012two" in lines, lines
    assert not re.search(r"\\\^\[|\[D|\[A|\[200~", history.read_text())
    with chat(hone, history) as person:
        person.type("\x1b[A\x1b[A\r", ANSWERED)
        assert "hello" in person.screen


def test_a_terminal_that_cannot_move_its_cursor_is_read_line_by_line(hone, tmp_path):
    with chat(hone, tmp_path / "history", TERM="dumb") as person:
        person.type("/help\r", "/reset-system")
    assert not (tmp_path / "history").exists()


def test_ctrl_c_ends_an_answer_and_not_the_chat(hone, tmp_path):
    """A model of random weights, which never ends its answers itself."""
    tiny_model(tmp_path / "model")
    with chat(hone, tmp_path / "history", tmp_path / "model", 100000) as person:
        os.write(person.fd, b"hello\r")
        time.sleep(1)  # the answer is under way
        person.type("\x03", ANSWERED)
        person.type("again\r", "again\r\n")
        time.sleep(0.5)
        person.type("\x03", ANSWERED)
