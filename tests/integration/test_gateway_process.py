"""The gateway as a process of its own: how it starts, what it loads, and how it ends."""

import asyncio
import json
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import grpc
import httpx
import pytest
import trustme
from google.rpc import error_details_pb2

from outrider.api_keys import make_key
from outrider.key_file import key_line
from outrider.v1 import generation_pb2_grpc
from tests.fakes.certificates import write_pair
from tests.integration.gateway_process import (
    START_S,
    environment,
    free_ports,
    running,
    write_model,
)
from tests.integration.gateway_stage import (
    HOST,
    PATIENCE_S,
    events,
    next_text,
    prompt,
    rich_status,
    script,
)

BAD_SETTINGS = 78


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model folder, as far as the gateway needs it."""
    return write_model(tmp_path)


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    """Runs a gateway that is expected to end by itself."""
    return subprocess.run(
        [sys.executable, "-m", "gateway", *flags],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )


def test_neither_torch_nor_transformers_is_loaded(model: Path) -> None:
    code = (
        "import sys, gateway.__main__\n"
        "from pathlib import Path\n"
        "from gateway.tokenization import PromptTokenizer\n"
        "PromptTokenizer.from_folder(Path(sys.argv[1]))\n"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(model)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.asyncio
async def test_a_signal_lets_running_streams_finish_and_sends_new_ones_away(
    model: Path, number: signal.Signals
) -> None:
    drafting = script("abc", hold_after=1)
    body = {"prompt": "x", "stream": True}
    async with (
        running(drafting, model) as gateway,
        grpc.aio.insecure_channel(f"{HOST}:{gateway.grpc_port}") as channel,
        httpx.AsyncClient(base_url=f"http://{HOST}:{gateway.http_port}") as http,
        http.stream("POST", "/generate", json=body) as response,
    ):
        stub: generation_pb2_grpc.GenerationServiceAsyncStub = (
            generation_pb2_grpc.GenerationServiceStub(channel)
        )
        call = stub.Generate(prompt())
        assert await next_text(call) == "a"
        gateway.process.send_signal(number)
        async with asyncio.timeout(PATIENCE_S):
            while (await http.get("/health")).json().get("reason") != "draining":
                pass
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Generate(prompt()).read()
        info = error_details_pb2.ErrorInfo()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert any(detail.Unpack(info) for detail in rich_status(caught.value).details)
        assert info.reason == "DRAINING"
        refused = await http.post("/generate", json=body)
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        assert refused.json()["error"]["code"] == "draining"
        drafting.release.set()
        assert [await next_text(call) for _ in range(3)] == ["b", "c", ""]
        messages = await events(response)
        assert "".join(message["text"] for message in messages[:-1]) == "abc"
        assert messages[-1] == "[DONE]"
        assert await gateway.end() == 0
        assert not await accepts(gateway.http_port)


async def accepts(port: int) -> bool:
    """True where someone listens."""
    try:
        _, writer = await asyncio.open_connection(HOST, port)
    except ConnectionRefusedError:
        return False
    writer.close()
    return True


@pytest.mark.asyncio
async def test_a_stream_that_does_not_end_is_cut_after_the_drain(model: Path) -> None:
    drafting = script("abc", hold_after=1)
    async with (
        running(drafting, model, ["--drain-timeout-s", "0.2"]) as gateway,
        grpc.aio.insecure_channel(f"{HOST}:{gateway.grpc_port}") as channel,
    ):
        stub: generation_pb2_grpc.GenerationServiceAsyncStub = (
            generation_pb2_grpc.GenerationServiceStub(channel)
        )
        call = stub.Generate(prompt())
        await call.read()
        gateway.process.terminate()
        assert await gateway.end() == 0
        await drafting.wait_for_open(0)


@pytest.mark.asyncio
async def test_the_end_of_its_supervisor_ends_a_supervised_gateway(model: Path) -> None:
    async with running(script("a"), model, OUTRIDER_SUPERVISED="1") as gateway:
        assert gateway.process.stdin is not None
        gateway.process.stdin.close()
        assert await gateway.end() == 0


@pytest.mark.asyncio
async def test_keys_are_loaded_again_and_usage_is_kept(model: Path) -> None:
    ca, keys, usage = trustme.CA(), model / "keys", model / "usage.json"
    old, new = make_key(), make_key()
    keys.write_text(key_line("alice", old))
    cert, key = write_pair(ca, model)
    context = ssl.create_default_context()
    ca.configure_trust(context)
    (probe_port,) = free_ports(1)
    flags = [
        *("--api-keys", str(keys), "--usage-file", str(usage), "--probe-port", str(probe_port)),
        *("--tls-cert", str(cert), "--tls-key", str(key)),
    ]
    async with (
        running(script("abc"), model, flags) as gateway,
        httpx.AsyncClient(verify=context) as http,
    ):
        probe = f"http://{HOST}:{probe_port}"
        async with asyncio.timeout(PATIENCE_S):
            while (await http.get(f"{probe}/health")).status_code != 200:
                pass
        assert "outrider_running_requests" in (await http.get(f"{probe}/metrics")).text
        url = f"https://{HOST}:{gateway.http_port}/generate"

        async def ask(key: str) -> int:
            headers = {"authorization": f"Bearer {key}"}
            return (await http.post(url, json={"prompt": "x"}, headers=headers)).status_code

        assert (await ask(old), await ask(new)) == (200, 401)
        keys.write_text(key_line("alice", new))
        gateway.process.send_signal(signal.SIGHUP)
        async with asyncio.timeout(PATIENCE_S):
            while await ask(new) != 200:
                pass
        assert await ask(old) == 401
        gateway.process.terminate()
        assert await gateway.end() == 0
    assert json.loads(usage.read_text())["alice"]["total_tokens"] == 2 * (1 + 4)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--model", "/nowhere/at/all"], "/nowhere/at/all"),
        (["--tls-cert", "/nowhere", "--tls-key", "/nowhere"], "--tls-cert /nowhere: No such file"),
        (["--grpc-host", "0.0.0.0"], "--grpc-host"),
        (["--http-port", "70000"], "--http-port"),
        (["--http-prot", "8080"], "--http-port"),
    ],
)
def test_a_bad_setting_ends_the_start_in_one_line(
    model: Path, flags: list[str], named: str
) -> None:
    done = run("--model", str(model), *flags)
    assert done.returncode == BAD_SETTINGS
    assert named in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.asyncio
async def test_the_page_can_be_turned_off(model: Path) -> None:
    for flags, status, root in ([], 200, 200), (["--playground", "false"], 404, 405):
        async with (
            running(script("abc"), model, flags) as gateway,
            httpx.AsyncClient(base_url=f"http://{HOST}:{gateway.http_port}") as http,
        ):
            assert (await http.get("/")).status_code == root  # TGI's clients post there
            assert (await http.get("/playground/page.js")).status_code == status


@pytest.mark.parametrize("flag", ["--grpc-port", "--http-port"])
def test_a_port_in_use_is_named(model: Path, flag: str) -> None:
    other, free = ("--http-port" if flag == "--grpc-port" else "--grpc-port"), free_ports(1)[0]
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        done = run("--model", str(model), flag, str(port), other, str(free))
    assert done.returncode == BAD_SETTINGS
    assert f"{HOST}:{port}" in done.stderr.splitlines()[-1]
