#!/usr/bin/env python3
"""clang-tidy over src/hone by the list in .clang-tidy: `tools/tidy.py BUILD [COMPONENT ...]`. A build compiles several files of a component as
one, and they are checked as one too: torch's headers are read once for all of them."""
import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
# GCC's alone; its precompiled header would not be read either.
DROPPED = ("--param", "-fpch-preprocess", "-Winvalid-pch", "-Wno-error", "-Werror", "-W", "-MD", "-fopenmp", "-O")
DROPPED_WITH_VALUE = ("-MT", "-MF", "-o", "-c")


def clang_flags(words):
    flags, words = [], iter(words)
    for word in words:
        if word in DROPPED_WITH_VALUE:
            next(words)
        elif not word.startswith(DROPPED):
            flags.append(word)
    return flags


def entries(build, components):
    """(component, file, flags) of everything that is compiled of src/hone."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        compiler = next(i for i, word in enumerate(words) if word.endswith(("/c++", "/g++", "clang++")) or word in ("c++", "g++"))
        output = words[words.index("-o") + 1]
        target = next((part for part in output.split("/") if part.startswith("hone_") and part.endswith(".dir")), None)
        source = pathlib.Path(entry["file"])
        if target is None or source.suffix != ".cpp":
            continue
        component = target.removeprefix("hone_").removesuffix(".dir").removesuffix("_plain").split("_")[0]
        if not components or component in components:
            yield component, source, clang_flags(words[compiler + 1:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("components", nargs="*")
    parser.add_argument("--tidy", default=os.environ.get("CLANG_TIDY", "clang-tidy-19"))
    options = parser.parse_args()
    found = list(entries(options.build, options.components))
    if not found:
        sys.exit(f"{options.build} compiles nothing of {' '.join(options.components) or 'src/hone'}; build it first")
    compiler_headers = subprocess.run(["g++", "-print-file-name=include"], capture_output=True, text=True, check=True).stdout.strip()  # omp.h
    failed = 0
    for component, source, flags in found:
        done = subprocess.run([options.tidy, "--quiet", f"--config-file={ROOT / '.clang-tidy'}", source, "--", *flags, "-idirafter", compiler_headers, "-Wno-everything"],
                              cwd=options.build, capture_output=True, text=True)
        output = "\n".join(line for line in done.stdout.splitlines() if line.strip())
        print(f"{'ok  ' if done.returncode == 0 else 'FAIL'} {component}: {source.name}", flush=True)
        if done.returncode != 0:
            print(output or done.stderr, flush=True)
            failed += 1
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
