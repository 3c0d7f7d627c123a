"""python -m hone.twinkle [--replace] script.py …: runs a script whose `import twinkle` means hone.twinkle."""
import runpy
import sys
from pathlib import Path

from .. import errors
from .alias import install


def main() -> None:
    words = sys.argv[1:]
    replace = words[:1] == ["--replace"]
    words = words[replace:]
    if not words or words[0].startswith("-"):
        sys.exit("usage: python -m hone.twinkle [--replace] script.py …\n  --replace: also where a twinkle-kit is installed")
    try:
        install(replace)
    except errors.UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    sys.argv = words
    sys.path.insert(0, str(Path(words[0]).resolve().parent))
    runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    main()
