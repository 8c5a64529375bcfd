"""The page's files: served to everybody, loading nothing from elsewhere."""

import re

import pytest

from gateway.playground.routes import PAGE
from outrider.api_keys import Access, make_key
from outrider.key_file import key_line, read_api_keys
from tests.integration.gateway_stage import script, stage

TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}

pytestmark = pytest.mark.asyncio


async def test_each_file_has_its_type_and_may_do_nothing_else() -> None:
    async with stage(script("abc")) as on:
        names = [file.name for file in PAGE.iterdir()]
        assert len(names) > 4
        for name in names:
            path = "/" if name == "index.html" else f"/playground/{name}"
            response = await on.http.get(path)
            assert response.status_code == 200
            assert response.headers["content-type"].startswith(TYPES[name.rpartition(".")[2]])
            assert response.headers["x-content-type-options"] == "nosniff"
            policy = response.headers["content-security-policy"].split("; ")
            assert "default-src 'none'" in policy
            assert not any("unsafe" in rule or "http" in rule or "*" in rule for rule in policy)
        assert (await on.http.head("/")).status_code == 200
        assert (await on.http.get("/playground/nothing.js")).status_code == 404
        assert (await on.http.get("/playground/../routes.py")).status_code == 404
        assert (await on.http.delete("/")).status_code == 405


async def test_it_is_for_everybody_although_answers_are_not() -> None:
    keys = Access(read_api_keys(key_line("alice", make_key())))
    async with stage(script("abc"), access=keys) as on:
        assert (await on.http.get("/")).status_code == 200
        assert (await on.http.get("/v1/models")).status_code == 401


async def test_nothing_is_named_that_lies_elsewhere() -> None:
    for file in PAGE.iterdir():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//[a-z]+\.[a-z]", text), file.name
        # Text never becomes markup or code.
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|eval\(|document\.write", text)
