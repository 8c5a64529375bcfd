"""Faults of gRPC clients, case by case: each gets its verdict, and a healthy stream stays exact."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.integration.gateway_process import write_model
from tests.integration.gateway_stage import HOST, PATIENCE_S
from tests.integration.transport.ground import Ground, ground
from tests.integration.transport.grpc_cases import (
    CALL_CASES,
    GENERATE,
    RAW_CASES,
    CallCase,
    RawCase,
)
from tests.integration.transport.grpc_deeds import AUTHORIZATION, GRPC_DEEDS
from tests.integration.transport.raw_http2 import call_fields, headers, http2

pytestmark = pytest.mark.asyncio

GROWTH_MIB = 32.0
FLOOD_GROWTH_MIB = 128.0  # of 400,000 calls taken back it is as much, and then no more
ANY_SIZE = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_metadata_size", 2**24),
    ("grpc.absolute_max_metadata_size", 2**24),
)


async def call(channel: Any, case: CallCase) -> None:
    options = {"metadata": case.metadata, "timeout": PATIENCE_S}
    if case.message is None:
        stream = channel.stream_stream(case.method)(iter(()), **options)
    else:
        stream = channel.unary_stream(case.method)(case.message, **options)
    with contextlib.suppress(grpc.aio.AioRpcError):
        await stream.read()
    assert await stream.code() is case.code, (case.name, await stream.details())


async def call_by_hand(on: Ground, case: RawCase) -> None:
    fields = call_fields(GENERATE, (*AUTHORIZATION, *case.fields))
    async with http2(on.gateway.grpc_port) as one:
        await one.send(headers(1, fields) + case.frames)
        async with asyncio.timeout(PATIENCE_S):
            while not one.statuses():
                assert not one.is_closed, case.name
                await one.changed()
        assert one.statuses() == [case.status], case.name


async def test_every_fault_gets_its_verdict_and_the_stream_beside_it_stays_exact(
    tmp_path: Path,
) -> None:
    async with ground(write_model(tmp_path)) as on:
        before = on.gateway.resident_mib
        address = f"{HOST}:{on.gateway.grpc_port}"
        async with grpc.aio.insecure_channel(address, options=ANY_SIZE) as channel:
            for case in CALL_CASES:
                await call(channel, case)
                await on.stands(case.name)
        for raw in RAW_CASES:
            await call_by_hand(on, raw)
            await on.stands(raw.name)
        assert on.gateway.resident_mib - before < GROWTH_MIB
        for name, deed in GRPC_DEEDS:
            await deed(on)
            await on.stands(name)
        assert on.gateway.resident_mib - before < FLOOD_GROWTH_MIB
