"""Two hosts on one machine: gateway and draft worker here, verify worker behind a link of its own.

    sudo -E python -m tests.links --model FOLDER

Makes two network namespaces with a veth pair that is limited to 1 Gbit/s, starts the services with
CURVE keys, and compares the ids of eight streams: in peace, behind a proxy that delays each
direction by 5 ms, and while the cable is pulled for 3 s. Prints where a round's time goes. Needs
root and iproute2; ends with 77 where it cannot run, and with 1 where something changed.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from outrider.cluster_keys import plan
from outrider.cluster_keys.folder import KeyFolder
from outrider.evaluation.client import AskFailed, connect
from outrider.evaluation.disturb import requests_of
from outrider.evaluation.options import add_model, add_prompts, model_from, positive, prompts_from
from outrider.evaluation.prompts import BadPrompts
from outrider.evaluation.service import end_with_sigterm
from outrider.evaluation.terminal import open_console
from outrider.settings import BadSettings
from outrider.supervision.service_plan import AUTO_HEAD
from outrider.supervision.up import head_folder
from tests.links.findings import (
    LinkFinding,
    PullFinding,
    is_well,
    pull_table,
    split_table,
)
from tests.links.namespaces import FAR, Hosts, NoNamespaces, enter, two_hosts
from tests.links.processes import LinkTestFailed, Processes
from tests.links.streams import Requests, over_link, together, while_pulled

EXIT_CHANGED = 1
EXIT_NOT_RUN = 2
EXIT_SKIPPED = 77

# The namespaces are empty, so all ports are free.
VERIFY_PORT, DRAFT_PORT, GRPC_PORT, HTTP_PORT, PROXY_PORT = 50053, 50052, 50051, 8080, 50153
DRAFT_METRICS_PORT, VERIFY_METRICS_PORT = 9101, 9102
ADDRESS = f"127.0.0.1:{GRPC_PORT}"


class LinkTest:
    """One run, within the near namespace.

    Args:
        args: Of the command.
        hosts: Of the link.
        processes: Starts the services.
        keys: Folder of a cluster's keys.
    """

    def __init__(
        self, args: argparse.Namespace, hosts: Hosts, processes: Processes, keys: Path
    ) -> None:
        self._args, self._hosts, self._processes, self._keys = args, hosts, processes, keys
        self._model = Path(model_from(args))
        prompts = prompts_from(args)[: args.streams]
        plain = requests_of(prompts, "none", args.max_new_tokens)
        self._requests = {"none": plain, "": requests_of(prompts, "", args.max_new_tokens)}
        for request in [one for requests in self._requests.values() for one in requests]:
            request.limits.ignore_eos = True  # long enough to be pulled
        self.links: list[LinkFinding] = []
        self.pulls: list[PullFinding] = []
        self._expected: list[tuple[int, ...]] = []

    def start_verify(self) -> None:
        """On the far host."""
        words = ["--model", self._model, "--dtype", self._args.dtype]
        words += ["--endpoint", f"tcp://{FAR}:{VERIFY_PORT}"]
        words += ["--metrics-port", VERIFY_METRICS_PORT]
        words += ["--curve-key", self._keys / plan.VERIFY_SECRET]
        words += ["--curve-peers", self._keys / "curve"]
        self._processes.start("verify", "verify_service", words, self._hosts.far_command())

    def start_near(self, endpoint: str) -> None:
        """Draft worker and gateway, and waits until they serve."""
        words = ["--verify-endpoints", endpoint, "--grpc-port", DRAFT_PORT]
        words += ["--metrics-port", DRAFT_METRICS_PORT]
        words += ["--curve-key", self._keys / plan.DRAFT_SECRET]
        words += ["--curve-peers", self._keys / plan.VERIFY_PUBLIC]
        head = head_folder(AUTO_HEAD, self._model, os.environ)
        words += ["--head", head, "--target", self._model] if head else []
        self._processes.start("draft", "draft_service", words)
        ports = ["--grpc-port", GRPC_PORT, "--http-port", HTTP_PORT]
        draft = ["--draft-addresses", f"127.0.0.1:{DRAFT_PORT}"]
        self._processes.start("gateway", "gateway", ["--model", self._model, *draft, *ports])
        self._processes.wait_until_served(ADDRESS)

    def stop_near(self) -> None:
        """Gateway and draft worker."""
        self._processes.stop("gateway")
        self._processes.stop("draft")

    async def measure(self, link: str) -> None:
        """One line a method and number of streams."""
        async with connect(ADDRESS) as stub:
            if not self._expected:
                self._expected = [one.token_ids for one in await together(stub, self._plain)]
            for requests in self._requests.values():
                await together(stub, requests[:1])  # the first one may pay for caches
                for streams in (1, len(requests)):
                    expected = self._expected[:streams]
                    some = requests[:streams]
                    finding = await over_link(stub, some, expected, link, self._args.repeats)
                    self.links.append(finding)

    async def pull(self) -> None:
        """Pulls the cable under the streams of each method."""
        async with connect(ADDRESS) as stub:
            for requests in self._requests.values():
                for _ in range(self._args.pulls):
                    cable = (self._hosts.pull, self._hosts.plug)
                    seconds = self._args.pull_seconds
                    self.pulls.append(
                        await while_pulled(stub, requests, self._expected, *cable, seconds)
                    )

    @property
    def _plain(self) -> Requests:
        return self._requests["none"]


def run(test: LinkTest, processes: Processes, args: argparse.Namespace) -> None:
    """All of it.

    Raises:
        AskFailed: A stream failed that was left in peace.
        LinkTestFailed: A process did not do what it had to.
    """
    test.start_verify()
    far = f"tcp://{FAR}:{VERIFY_PORT}"
    test.start_near(far)
    asyncio.run(test.measure(args.rate))
    asyncio.run(test.pull())
    test.stop_near()
    if args.delay_ms:
        words = (PROXY_PORT, FAR, VERIFY_PORT, args.delay_ms)
        processes.start("proxy", "tests.links.delay_proxy", words)
        test.start_near(f"tcp://127.0.0.1:{PROXY_PORT}")
        asyncio.run(test.measure(f"{args.rate}, {args.delay_ms:g} ms more each way"))
        test.stop_near()
    processes.stop("verify")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command.

    Returns:
        0, or why not: see above.
    """
    args = _parser().parse_args(argv)
    console = open_console()
    end_with_sigterm()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="outrider-links-") as name,
            two_hosts(args.rate) as hosts,
        ):
            folder = Path(name)
            KeyFolder(folder / "keys", datetime.now(UTC)).fill("draft")
            enter(hosts.near)
            console.print(f"gateway and draft in {hosts.near}, verify in {hosts.far}", markup=False)
            with Processes(folder) as processes:
                test = LinkTest(args, hosts, processes, folder / "keys")
                run(test, processes, args)
    except NoNamespaces as error:
        console.print(f"links: SKIPPED: {error}", style="yellow", markup=False)
        return EXIT_SKIPPED
    except (AskFailed, BadPrompts, BadSettings, LinkTestFailed) as error:
        console.print(f"links: {error}", style="red", markup=False)
        return EXIT_NOT_RUN
    console.print(split_table(test.links))
    console.print(pull_table(test.pulls))
    for problem in [problem for one in test.pulls for problem in one.problems]:
        console.print(f"  {problem}", markup=False)
    if args.json:
        found = {
            "links": [asdict(one) for one in test.links],
            "pulls": [asdict(one) for one in test.pulls],
        }
        args.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0 if is_well(test.links, test.pulls) else EXIT_CHANGED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests.links", description=__doc__.split("\n")[0])
    add_model(parser)
    add_prompts(parser)
    option = parser.add_argument
    option("--dtype", default="float32", help="of the target")
    option("--rate", default="1gbit", help="of the link, as tc reads it")
    option("--delay-ms", type=float, default=5.0, help="added to each direction; 0: not measured")
    option("--streams", type=positive, default=8, help="at a time")
    option("--repeats", type=positive, default=2, help="of each measurement")
    option("--pulls", type=int, default=1, help="of the cable, for each method")
    option("--pull-seconds", type=float, default=3.0, help="how long it is out")
    option("--max-new-tokens", type=positive, default=96, help="of an answer")
    option("--json", type=Path, help="file to write the figures to")
    return parser


if __name__ == "__main__":
    sys.exit(main())
