"""Makes a torch that was built for CUDA one for CPUs: usage: without_cuda.py <folder of torch>/lib

torch_npu refuses a torch that has found another accelerator, and on x86_64 some releases are on PyPI for CUDA alone. Nothing of libtorch's CPU part
needs CUDA, but its libraries name CUDA's, so these get empty ones under those names: their C functions answer with an error, all else ends the
program. Gigabytes of NVIDIA's wheels stay where they are.
"""
import pathlib
import re
import subprocess
import sys

KEPT = ("libtorch_cpu.so", "libtorch_python.so", "libtorch.so", "libshm.so", "libtorch_global_deps.so", "libc10.so")
OURS = re.compile(r"lib(torch_cuda|torch_cuda_linalg|c10_cuda|caffe2_nvrtc|cu\w+|nv\w+|nccl)\.so")


def output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def symbols(library, kind):
    """Name → version ('' for none) of a library's dynamic symbols."""
    words = (line.split()[-1] for line in output("nm", "-D", kind, library).splitlines())
    return {name: version.lstrip("@") for name, _, version in (word.partition("@") for word in words)}


def answer(name):
    """What a function of that name does here."""
    if "get_gil_checker" in name:  # asked while the libraries load: the place of a pointer
        return "static long none; return (long)&none"
    if "device_count" in name:
        return "return 0"
    return "__builtin_trap()" if name.startswith("_Z") else "return 1"


def source(names):
    lines = []
    for i, name in enumerate(sorted(names)):
        if name.startswith(("_ZTV", "_ZTI")):  # tables, which are data; the second word of a type's is its name
            lines.append(f'extern const char* x{i}[64] __asm__("{name}"); const char* x{i}[64] = {{0, "{name[4:]}"}};')
        else:
            lines.append(f'long x{i}(void) __asm__("{name}"); long x{i}(void) {{ {answer(name)}; }}')
    return "\n".join(lines) + "\n"


def build(path, names, version):
    """A library of that name with these symbols, of the version its users ask for."""
    script = path.with_suffix(".map")
    script.write_text(f"{version} {{ *; }};\n" if version else "{ global: *; };\n")
    subprocess.run(["gcc", "-w", "-shared", "-fPIC", "-nostdlib", "-x", "c", "-", "-o", path, f"-Wl,-soname,{path.name}", f"-Wl,--version-script,{script}"],
                   input=source(names), text=True, check=True)
    script.unlink()


def main():
    folder = pathlib.Path(sys.argv[1])
    needed = {name for kept in KEPT for name in re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", folder / kept)) if OURS.match(name)}
    if not needed:
        return
    print(f"{folder}: built for CUDA, made one for CPUs")
    present = {name for kept in KEPT for name in symbols(folder / kept, "--defined-only")}
    from_cuda = {name for part in ("libtorch_cuda.so", "libc10_cuda.so") for name in symbols(folder / part, "--defined-only")} - present
    wanted = {}
    for kept in KEPT:
        for name, version in symbols(folder / kept, "--undefined-only").items():
            if OURS.match(version) or name in from_cuda or (not version and name.startswith("cu")):
                wanted.setdefault(version, set()).add(name)
    for name in needed:
        (folder / name).unlink(missing_ok=True)
        build(folder / name, wanted.pop(name, set()), name if re.search(r"\.so\.\d", name) else "")
    # What carries no version may come from any of them.
    build(folder / "libtorch_cuda.so", set().union(*wanted.values()), "")
    for name in ("libtorch_cuda_linalg.so", "libcaffe2_nvrtc.so"):
        (folder / name).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
