"""Faults of HTTP clients, case by case: each gets its verdict, and a healthy stream stays exact."""

import time
from pathlib import Path

import pytest

from tests.integration.gateway_process import write_model
from tests.integration.transport.ground import Ground, ground
from tests.integration.transport.http_cases import HTTP_CASES, HttpCase
from tests.integration.transport.http_deeds import HTTP_DEEDS
from tests.integration.transport.raw_http import exchange

pytestmark = pytest.mark.asyncio

ANSWER_S = 1.0  # ten times what a quiet machine may take
GROWTH_MIB = 32.0


async def verdict(on: Ground, case: HttpCase) -> None:
    began = time.monotonic()
    answer = await exchange(on.gateway.http_port, *case.parts)
    taken = time.monotonic() - began
    shown = (case.name, answer)
    assert (answer.status, answer.is_closed) == (case.status, case.is_closed), shown
    assert taken < ANSWER_S, shown
    assert case.shown.items() <= answer.headers.items(), shown
    assert not any(name.startswith("access-control") for name in answer.headers), shown
    if case.status >= 400:
        assert set(answer.error) == {"message", "type", "param", "code"}, shown
        assert answer.error["param"] == case.param, shown
        assert len(answer.body) < 1024, shown


async def test_every_fault_gets_its_verdict_and_the_stream_beside_it_stays_exact(
    tmp_path: Path,
) -> None:
    async with ground(write_model(tmp_path)) as on:
        before = on.gateway.resident_mib
        for case in HTTP_CASES:
            await verdict(on, case)
            await on.stands(case.name)
        for name, deed in HTTP_DEEDS:
            await deed(on)
            await on.stands(name)
        assert on.gateway.resident_mib - before < GROWTH_MIB
