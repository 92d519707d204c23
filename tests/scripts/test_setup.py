"""scripts/setup.sh with fake programs: which torch it installs, what it keeps, and what it adds for Triton.

python3 is a wrapper that answers pip and venv itself, and runs everything else in this interpreter without
its packages (-S). The packages of the machine, and those that "pip" installs, are folders in PYTHONPATH.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.system("posix")  # the scripts run in bash

ROOT = Path(__file__).parents[2]
TOOLS = (
    "bash",
    "cat",
    "cksum",
    "cp",
    "cut",
    "dirname",
    "grep",
    "mkdir",
    "paste",
    "rm",
    "sed",
    "sh",
    "tail",
    "touch",
    "tr",
)
COPIED = (
    "scripts/__init__.py",
    "scripts/setup.sh",
    "scripts/apt.sh",
    "scripts/venv.sh",
    "scripts/uv_install.py",
    "requirements.txt",
)
INDEX = "https://index.example/whl"
H100 = "580.65.06, NVIDIA H100, 9.0"
OLD_DRIVER = "550.54.15, NVIDIA H100, 9.0"
PINNED = "2.13.0"

PYTHON = """#!/bin/bash
export PYTHONPATH=$FAKE/venv_packages
case $0 in *.venv*) grep -q "packages = true" .venv/pyvenv.cfg && PYTHONPATH+=:$FAKE/packages ;;
    *) PYTHONPATH=$FAKE/packages ;; esac
case "$1 $2" in
    "-m venv")
        echo "$*" >>"$FAKE/log"
        rm -rf .venv "$FAKE/venv_packages"
        mkdir -p .venv/bin "$FAKE/venv_packages"
        cp "$FAKE/bin/python3" .venv/bin/python
        case "$*" in *--system-site-packages*) system=true ;; *) system=false ;; esac
        echo "include-system-site-packages = $system" >.venv/pyvenv.cfg ;;
    "-m pip")
        [ "$3" = --version ] && exit 0
        echo "$*" >>"$FAKE/log"
        [ "${PIP_FAILS:-}" ] && exit 1
        case "$*" in
            *" uninstall "*) rm -r "$FAKE"/venv_packages/torch* ;;
            *" torch==2.13.0") cp -r "$FAKE/wheels/." "$FAKE/venv_packages" ;;
            *" uv==0.13.9") cp -r "$FAKE/uv_wheels/." "$FAKE/venv_packages" ;;
        esac ;;
    "-c "*serve_one) echo "imports" >>"$FAKE/log" ;;
    "-m checks.installation.triton_needs")
        exec "$FAKE/python" -S -c "import runpy, sysconfig
sysconfig.get_paths = lambda *a: {'include': '$FAKE/include'}
runpy.run_module('checks.installation.triton_needs', run_name='__main__')" ;;
    *) exec "$FAKE/python" -S "$@" ;;
esac
"""
# Answers `python -m uv`. It copies from the wheels what it is asked for, like the fake pip.
UV = """
import os, shutil, sys
fake = os.environ["FAKE"]
variables = [f"{name}={value}" for name, value in os.environ.items() if name.startswith("UV_")]
with open(f"{fake}/log", "a") as log:
    print("-m uv", *sys.argv[1:], *variables, file=log)
if "UV_FAILS" in os.environ:
    sys.exit(1)
if sys.argv[-1] == "torch==2.13.0":
    shutil.copytree(f"{fake}/wheels", f"{fake}/venv_packages", dirs_exist_ok=True)
"""
APT = '#!/bin/bash\necho "apt-get $*" >>"$FAKE/log"\n'
TORCH = """
class cuda:
    is_available = staticmethod(lambda: {uses_gpu})
class tensor:
    add = item = lambda *a: tensor()
ones = lambda *a, **b: tensor()
__version__ = {version!r}
"""


@dataclass(frozen=True)
class Sandbox:
    """A copy of the set-up's files on a machine of fake programs."""

    home: Path

    def add_torch(self, folder: str, version: str, cuda: str | None, *, uses_gpu: bool = True) -> None:
        package = self.add_package(folder, "torch", version)
        (package / "version.py").write_text(f"cuda: str | None = {cuda!r}\n")
        (package / "__init__.py").write_text(TORCH.format(uses_gpu=uses_gpu, version=version))

    def add_package(self, folder: str, name: str, version: str) -> Path:
        package = self.home / folder / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f"__version__ = {version!r}\n")
        metadata = self.home / folder / f"{name}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        return package

    def add_program(self, name: str, text: str) -> None:
        path = self.home / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def add_gpu(self, row: str) -> None:
        self.add_program("nvidia-smi", f'#!/bin/sh\necho "{row}"\n')

    def run(self, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run setup.sh with an empty log of programs."""
        (self.home / "log").write_text("")
        return subprocess.run(
            ["bash", str(self.home / "repo/scripts/setup.sh")],
            capture_output=True,
            text=True,
            env={"PATH": str(self.home / "bin"), "FAKE": str(self.home)} | environment,
        )

    def log(self, word: str) -> list[str]:
        return [line for line in (self.home / "log").read_text().splitlines() if word in line]


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    repo = tmp_path / "repo"
    for name in COPIED:
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, repo / name)
    (repo / "checks").symlink_to(ROOT / "checks")
    for folder in ("bin", "packages", "venv_packages", "uv_wheels"):
        (tmp_path / folder).mkdir()
    for tool in TOOLS:
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    (tmp_path / "python").symlink_to(os.path.realpath(sys.executable))
    sandbox = Sandbox(tmp_path)
    sandbox.add_program("python3", PYTHON)
    sandbox.add_program("apt-get", APT)
    sandbox.add_program("id", "#!/bin/sh\necho 0\n")
    for name in ("transformers", "huggingface_hub"):
        sandbox.add_package("wheels", name, "9.0")
    return sandbox


def add_uv(sandbox: Sandbox, pip_settings: str) -> None:
    """Let pip find uv, and print these lines as its configuration."""
    for name, program in {"uv": UV, "pip": f"print({pip_settings!r})"}.items():
        (sandbox.add_package("uv_wheels", name, "1") / "__main__.py").write_text(program)


def add_image(sandbox: Sandbox, torch: str, transformers: str, cuda: str | None = "13.0") -> None:
    """Give the machine's Python packages, as a GPU image has them. `cuda`: None for a CPU build."""
    sandbox.add_torch("packages", torch, cuda, uses_gpu=cuda is not None)
    sandbox.add_package("packages", "transformers", transformers)
    sandbox.add_package("packages", "huggingface_hub", "1.9")


def pip_torch(sandbox: Sandbox) -> list[str]:
    return [line for line in sandbox.log("torch==") if "install" in line]


@pytest.mark.parametrize(
    ("row", "index", "options"),
    [
        (H100, "", ""),
        (H100, f"{INDEX}/cpu", f"--index-url {INDEX}/cu130 "),
        (OLD_DRIVER, f"{INDEX}/cpu", f"--index-url {INDEX}/cu126 "),
        ("580.65.06, Tesla V100, 7.0", f"{INDEX}/cpu", f"--index-url {INDEX}/cu126 "),
        ("", f"{INDEX}/cpu", f"--index-url {INDEX}/cpu "),
        ("", "", ""),
    ],
)
def test_the_driver_decides_where_torch_comes_from(
    sandbox: Sandbox, row: str, index: str, options: str
) -> None:
    if row:
        sandbox.add_gpu(row)
    cuda = f"{options[-4:-2]}.{options[-2]}" if "cu1" in options else "13.0" if row else None
    sandbox.add_torch("wheels", PINNED, cuda)
    done = sandbox.run(TORCH_INDEX=index)
    assert done.returncode == 0, done.stderr
    (line,) = pip_torch(sandbox)
    assert line.endswith(f"--disable-pip-version-check {options}torch=={PINNED}")
    build = options[-6:-1] if "cu1" in options else "cu130" if row else "cpu"
    assert f"this machine runs the {build} build" in done.stderr


def test_a_build_outside_pips_own_index_needs_torch_index(sandbox: Sandbox) -> None:
    sandbox.add_gpu(OLD_DRIVER)
    done = sandbox.run()
    assert done.returncode == 1 and not pip_torch(sandbox)
    last = done.stderr.splitlines()[-1]
    assert "cu126" in last and "TORCH_INDEX" in last and "update the NVIDIA driver to 580" in last


def test_an_index_that_cannot_be_reached_ends_in_a_sentence(sandbox: Sandbox) -> None:
    done = sandbox.run(TORCH_INDEX=f"{INDEX}/cpu", PIP_FAILS="1")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        f"setup: pip cannot install torch=={PINNED} from TORCH_INDEX"
    )


def test_uv_installs_with_the_settings_of_pip(sandbox: Sandbox) -> None:
    add_uv(sandbox, "global.find-links='/wheels'")
    sandbox.add_torch("wheels", PINNED, None)
    assert sandbox.run().returncode == 0
    assert [line.split()[-1] for line in sandbox.log("-m pip install")] == ["uv==0.13.9"]
    torch, others = sandbox.log("-m uv pip install")
    assert f" --no-compile torch=={PINNED} " in torch and " --no-compile -r requirements.txt " in others
    assert all(" UV_FIND_LINKS=/wheels" in line for line in (torch, others))


@pytest.mark.parametrize(
    ("settings", "variables"), [("", {"UV_FAILS": "1"}), ("global.only-binary=':all:'", {})]
)
def test_pip_installs_where_uv_cannot(sandbox: Sandbox, settings: str, variables: dict[str, str]) -> None:
    add_uv(sandbox, settings)
    sandbox.add_torch("wheels", PINNED, None)
    assert sandbox.run(**variables).returncode == 0
    assert [line.split()[-1] for line in sandbox.log("-m pip install")] == [
        *("uv==0.13.9", f"torch=={PINNED}", "requirements.txt")
    ]


def test_what_a_start_imports_is_compiled_after_all_is_installed_and_a_second_run_does_nothing(
    sandbox: Sandbox,
) -> None:
    sandbox.add_torch("wheels", PINNED, None)
    assert sandbox.run().returncode == 0 and pip_torch(sandbox)
    installs = sandbox.log("pip install")
    assert all(" --no-compile " in line for line in installs)
    assert sandbox.log("").index("imports") > sandbox.log("").index(installs[-1])
    done = sandbox.run()
    assert (done.returncode, done.stderr, sandbox.log("")) == (0, "", [])


def test_a_cpu_build_is_replaced_once_there_is_a_gpu(sandbox: Sandbox) -> None:
    sandbox.add_torch("wheels", PINNED, None, uses_gpu=False)
    assert sandbox.run().returncode == 0
    shutil.rmtree(sandbox.home / "wheels")
    sandbox.add_torch("wheels", PINNED, "13.0")
    sandbox.add_gpu(H100)
    done = sandbox.run()
    assert done.returncode == 0 and sandbox.log("pip uninstall") and pip_torch(sandbox)
    assert "cannot use the GPU" in done.stderr
    assert sandbox.run().stderr == ""


def test_packages_that_became_too_old_are_replaced(sandbox: Sandbox) -> None:
    """The start says "run scripts/setup.sh"; the stamp of an earlier set-up must not end it."""
    add_image(sandbox, "2.11.0+cu130", "5.17.0")
    sandbox.add_torch("wheels", PINNED, None)
    assert sandbox.run().returncode == 0 and sandbox.log("--system-site-packages")
    shutil.rmtree(sandbox.home / "packages")
    add_image(sandbox, "2.6.0+cu130", "5.17.0")
    assert sandbox.run().returncode == 0
    assert sandbox.log("venv") and not sandbox.log("--system-site-packages") and pip_torch(sandbox)


@pytest.mark.parametrize(
    ("torch", "transformers", "uses"),
    [("2.11.0+cu130", "5.17.0", True), ("2.6.0", "5.17.0", False), ("2.11.0+cu130", "5.0.0", False)],
)
def test_set_up_uses_the_packages_that_the_start_accepts(
    sandbox: Sandbox, torch: str, transformers: str, uses: bool
) -> None:
    add_image(sandbox, torch, transformers)
    sandbox.add_torch("wheels", PINNED, None)
    assert sandbox.run().returncode == 0
    assert bool(sandbox.log("--system-site-packages")) is uses


def test_an_image_keeps_its_torch_and_gets_what_is_missing(sandbox: Sandbox) -> None:
    sandbox.add_gpu(H100)
    add_image(sandbox, "2.11.0+cu130", "5.17.0")
    sandbox.add_package("packages", "flask", "2.0.0")
    assert sandbox.run().returncode == 0
    (line,) = sandbox.log("-m pip install")
    assert line.endswith(" torch==2.11.0+cu130 transformers==5.17.0")
    assert " uvicorn==" in line and " llguidance==" in line
    assert not any(name in line for name in (f"torch=={PINNED}", "flask==", "huggingface_hub=="))


def test_an_image_whose_torch_cannot_use_the_gpu_is_not_used(sandbox: Sandbox) -> None:
    sandbox.add_gpu(H100)
    add_image(sandbox, "2.11.0+cpu", "5.17.0", cuda=None)
    sandbox.add_torch("wheels", PINNED, "13.0")
    assert sandbox.run().returncode == 0
    assert not sandbox.log("--system-site-packages") and pip_torch(sandbox)


def test_a_container_may_run_a_newer_cuda_on_an_older_driver(sandbox: Sandbox) -> None:
    sandbox.add_gpu(OLD_DRIVER)
    add_image(sandbox, "2.11.0+cu130", "5.17.0")
    assert sandbox.run().returncode == 0 and sandbox.log("--system-site-packages")
    assert sandbox.run().stderr == ""


@pytest.mark.parametrize("has_gpu", [True, False])
def test_a_compiler_is_installed_with_and_without_a_gpu(sandbox: Sandbox, has_gpu: bool) -> None:
    if has_gpu:
        sandbox.add_gpu(H100)
    sandbox.add_torch("wheels", PINNED, "13.0" if has_gpu else None)
    assert sandbox.run().returncode == 0
    assert sandbox.log("apt-get install")[0].partition("recommends ")[2].startswith("gcc libc6-dev")


def test_the_headers_of_python_are_installed_on_a_gpu_machine(sandbox: Sandbox) -> None:
    sandbox.add_gpu(H100)
    sandbox.add_torch("wheels", PINNED, "13.0")
    sandbox.add_program("gcc", "#!/bin/sh\n")
    assert sandbox.run().returncode == 0
    (line,) = sandbox.log("apt-get install")
    assert line.endswith(f" python3.{sys.version_info.minor}-dev libc6-dev")


def test_nothing_is_installed_with_apt_where_triton_has_what_it_needs(sandbox: Sandbox) -> None:
    sandbox.add_gpu(H100)
    sandbox.add_torch("wheels", PINNED, "13.0")
    sandbox.add_program("gcc", "#!/bin/sh\n")
    (sandbox.home / "include").mkdir()
    (sandbox.home / "include/Python.h").touch()
    assert sandbox.run().returncode == 0 and not sandbox.log("apt-get")
