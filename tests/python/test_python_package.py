"""The wheel `hone`, installed into a separate environment with torch: the program, the module, and their documentation."""
import json
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from python_environment import BINARY, ROOT, own_environment, run
from workers import made_once

CHECKS = re.findall(r"^def (check_\w+)", (Path(__file__).parent / "checks.py").read_text(), re.M)


@pytest.fixture(scope="session")
def results(tmp_path_factory, python):
    def make(folder):
        done = subprocess.run([python, Path(__file__).parent / "checks.py", folder / "checks"], capture_output=True, text=True, timeout=600,
                              env=own_environment(), cwd=folder)
        (folder / "output.txt").write_text(done.stdout + done.stderr)

    folder = made_once(tmp_path_factory, "python checks", make)
    return json.loads((folder / "checks/results.json").read_text()), (folder / "output.txt").read_text()


def test_wheel_holds_the_program_the_module_and_types(wheel):
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        metadata = file.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    for name in ("hone/bin/hone", "hone/py.typed", "hone/_hone.pyi", "hone/__main__.py", "hone/_built.py"):
        assert name in names, name
    assert any(re.fullmatch(r"hone/_hone\.cpython-.*\.so", name) for name in names)
    assert not [name for name in names if name.endswith((".a", ".h", ".cpp", ".cmake"))]
    version = re.search(r"project\(hone VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert f"\nName: hone\nVersion: {version}\n" in metadata and "Requires-Dist: torch" in metadata


def test_the_program_is_there_under_all_its_names(python, tmp_path):
    environment = own_environment()
    for command in ([python.parent / "hone"], [python, "-m", "hone"]):
        assert run(*command, "version", env=environment) == run(BINARY, "version", env=environment)
    assert not (python.parent / "accelerate").exists()  # which may be another program's
    run(python, "-c", f"import hone.program; hone.program.link_front_ends({str(tmp_path)!r})", env=environment)
    assert "swift sft" in run(tmp_path / "swift", "sft", "--help", env=environment)
    done = subprocess.run([python, "-m", "hone", "sft", "--nonsense"], capture_output=True, text=True, env=environment)
    assert done.returncode == 2 and "error:" in done.stderr
    package = next((python.parents[1] / "lib").glob("python3*/site-packages/hone"))
    for file in (package / "bin/hone", next(package.glob("_hone.*.so"))):
        assert str(ROOT) not in run("readelf", "-d", file), "a path of the machine that built it"


def test_the_program_starts_without_importing_torch(python):
    code = "import sys, hone, hone.program; print('torch' in sys.modules, 'numpy' in sys.modules)"
    assert run(python, "-c", code, env=own_environment()).split() == ["False", "False"]


def test_another_torch_is_refused(python, tmp_path):
    code = "import sys, types; torch = sys.modules['torch'] = types.ModuleType('torch'); torch.__version__ = '1.13.1'; import hone; hone.Model"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, env=own_environment())
    assert done.returncode == 1 and "was built with torch" in done.stderr and "has 1.13.1\n  hint: install torch" in done.stderr
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/version.py").write_text("__version__ = '1.13.1+cpu'\n")
    code = f"import hone.program, pathlib; hone.program.FOLDER = pathlib.Path({str(tmp_path)!r}) / 'hone/bin'; hone.program.main()"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, env=own_environment())
    assert done.returncode == 2 and done.stderr.startswith("error: this hone was built with torch 2.") and "has 1.13.1+cpu\n  hint: install torch" in done.stderr


@pytest.mark.parametrize("name", CHECKS)
def test_check(results, name):
    found, output = results
    assert found.get(name, f"the process ended before it\n{output[-3000:]}") == "ok", found.get(name, output[-3000:])


def test_the_chinese_page_has_the_same_code():
    def code(page):
        return [re.sub(r"#.*", "", block) for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S)]

    assert code("python.zh.md") == code("python.md")
