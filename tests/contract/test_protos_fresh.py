"""The stubs that are installed were made from the protos that lie here."""

import subprocess
import sysconfig
from pathlib import Path

import pytest
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from outrider.v1 import decoding_pb2, drafting_pb2, generation_pb2, speculation_pb2

PROTOS = Path(__file__).parents[2] / "protos"


@pytest.fixture(scope="module")
def sources() -> dict[str, FileDescriptorProto]:
    buf = Path(sysconfig.get_path("scripts")) / "buf"
    command = [str(buf), "build", str(PROTOS), "--as-file-descriptor-set", "--output", "-"]
    built = subprocess.run(command, capture_output=True, check=True)
    return {file.name: _essence(file) for file in FileDescriptorSet.FromString(built.stdout).file}


def _essence(file: FileDescriptorProto) -> FileDescriptorProto:
    """Without comments, and without the JSON names that only one of the two compilers writes."""
    essence = FileDescriptorProto()
    essence.CopyFrom(file)
    essence.ClearField("source_code_info")
    messages = list(essence.message_type)
    while messages:
        message = messages.pop()
        messages.extend(message.nested_type)
        for field in message.field:
            field.ClearField("json_name")
    return essence


@pytest.mark.parametrize(
    "stub",
    [
        decoding_pb2.DESCRIPTOR,
        drafting_pb2.DESCRIPTOR,
        generation_pb2.DESCRIPTOR,
        speculation_pb2.DESCRIPTOR,
    ],
    ids=lambda stub: stub.name,
)
def test_a_stub_is_its_proto(stub: FileDescriptor, sources: dict[str, FileDescriptorProto]) -> None:
    installed = FileDescriptorProto.FromString(stub.serialized_pb)
    assert _essence(installed) == sources[stub.name], "run `make setup`"


def test_no_proto_is_left_out(sources: dict[str, FileDescriptorProto]) -> None:
    written = {str(path.relative_to(PROTOS)) for path in PROTOS.rglob("*.proto")}
    assert {name for name in sources if name.startswith("outrider/")} == written
    assert len(written) == 4
