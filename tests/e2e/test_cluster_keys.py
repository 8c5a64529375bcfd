"""The three processes know each other by the files of `outrider keys --cluster`, and nobody else.

The go-live list passes with the first API key and the token of the metrics pages.
"""

import json
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest

from outrider.cluster_keys import plan
from outrider.cluster_keys.folder import KeyFolder
from outrider.evaluation.service import free_ports, wait_until_served
from outrider.going_live.check import main
from outrider.going_live.lines import Verdict
from outrider.v1 import drafting_pb2, drafting_pb2_grpc
from tests.e2e.test_separate_processes import START_TIMEOUT_S, running
from tests.e2e.tiny_model import TinyModel

pytestmark = pytest.mark.timeout(240)  # three processes are started on a machine that may be busy

MAY_NOT_PASS = {"speed with speculation, against without"}  # a random model on a busy machine


def test_a_cluster_with_keys_passes_the_go_live_list(tiny_model: TinyModel, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    made = KeyFolder(keys, datetime.now(UTC)).fill("draft")
    ports = free_ports(7)
    grpc_port, http_port, probe_port, draft_port, verify_port, draft_page, verify_page = ports
    endpoint = f"tcp://127.0.0.1:{verify_port}"
    token = keys / plan.METRICS_TOKEN
    logs = {name: tmp_path / f"{name}.log" for name in ("verify", "draft", "gateway")}
    with ExitStack() as stack:
        stack.enter_context(
            running(
                logs["verify"],
                "verify_service",
                model=tiny_model.folder,
                endpoint=endpoint,
                dtype="float32",
                threads=1,
                metrics_port=verify_page,
                metrics_token_file=token,
                curve_key=keys / plan.VERIFY_SECRET,
                curve_peers=keys / "curve",
            )
        )
        stack.enter_context(
            running(
                logs["draft"],
                "draft_service",
                verify_endpoints=endpoint,
                grpc_port=draft_port,
                tls_cert=keys / plan.DRAFT_CERT,
                tls_key=keys / plan.DRAFT_KEY,
                tls_client_ca=keys / plan.CA,
                metrics_port=draft_page,
                metrics_token_file=token,
                curve_key=keys / plan.DRAFT_SECRET,
                curve_peers=keys / plan.VERIFY_PUBLIC,
            )
        )
        gateway = stack.enter_context(
            running(
                logs["gateway"],
                "gateway",
                model=tiny_model.folder,
                draft_addresses=f"127.0.0.1:{draft_port}",
                draft_tls_ca=keys / plan.CA,
                draft_tls_cert=keys / plan.GATEWAY_CERT,
                draft_tls_key=keys / plan.GATEWAY_KEY,
                api_keys=keys / plan.API_KEYS,
                grpc_port=grpc_port,
                http_port=http_port,
                probe_port=probe_port,
                metrics_token_file=token,
            )
        )
        wait_until_served(f"127.0.0.1:{grpc_port}", gateway, START_TIMEOUT_S)
        file = tmp_path / "check.json"
        pages = ",".join(f"127.0.0.1:{port}" for port in (probe_port, draft_page, verify_page))
        where = ["--target", f"127.0.0.1:{grpc_port}", "--http", f"http://127.0.0.1:{http_port}"]
        watched = ["--metrics", pages, "--metrics-token-file", str(token)]
        written = ["--logs", ",".join(map(str, logs.values())), "--json", str(file)]
        how = ["--prompts", "2", "--max-new-tokens", "24", "--rate", "4", "--seconds", "1"]
        status = main([*where, *watched, *written, *how, "--key", made.api_key])
        lines = {line["name"]: line for line in json.loads(file.read_text())["lines"]}
        assert status == 0, lines
        others = {name for name, line in lines.items() if line["verdict"] != Verdict.PASS}
        assert others <= MAY_NOT_PASS | {f"no warning in {log.name}" for log in logs.values()}
        assert lines["strangers are refused"]["verdict"] == Verdict.PASS
        assert _code_without_certificate(draft_port) is grpc.StatusCode.UNAVAILABLE


def _code_without_certificate(draft_port: int) -> grpc.StatusCode:
    with grpc.insecure_channel(f"127.0.0.1:{draft_port}") as channel:
        stub = drafting_pb2_grpc.DraftingServiceStub(channel)
        with pytest.raises(grpc.RpcError) as caught:
            stub.GetWorker(drafting_pb2.GetWorkerRequest(), timeout=5)
    return caught.value.code()
