"""What the tests of hubs share."""
from pathlib import Path

SMALL = {"config.json": b'{"a": 1}', "sub/names.txt": "数据\n".encode(), "empty.txt": b""}


def path_of(done):
    """The folder that `hone download` prints."""
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def content_of(folder):
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def refused(done, code, *words):
    assert done.returncode == code, (done.stdout, done.stderr)
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr, done.stderr
