"""The keys of a cluster: made once, never overwritten, and each missing one made again."""

import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from outrider.cluster_keys import plan
from outrider.cluster_keys.certificates import read_leaf
from outrider.cluster_keys.command import run_cluster_keys
from outrider.cluster_keys.folder import KeyFolder, Made
from outrider.key_file import read_api_keys
from outrider.protocol.zmq_channel import load_curve_keys
from outrider.settings import BadSettings

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(days=300)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def fill(root: Path, now: datetime = NOW, name: str = "draft") -> Made:
    return KeyFolder(root, now).fill(name)


def contents(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def test_all_files_are_made_and_secrets_are_for_their_owner_only(root: Path) -> None:
    made = fill(root)
    assert set(contents(root)) == set(made.paths) == {one.path for one in plan.FILES}
    for one in plan.FILES:
        mode = stat.S_IMODE((root / one.path).stat().st_mode)
        assert mode == (0o600 if one.is_secret else 0o644), one.path
    assert read_api_keys((root / plan.API_KEYS).read_text())[0].name == "first"
    assert made.api_key not in (root / plan.API_KEYS).read_text()
    assert len((root / plan.METRICS_TOKEN).read_text().strip()) >= 43


def test_a_second_run_changes_nothing(root: Path) -> None:
    fill(root)
    before = contents(root)
    again = fill(root, LATER)
    assert contents(root) == before
    assert (again.paths, again.api_key) == ([], "")


@pytest.mark.parametrize(
    "path", [one.path for one in plan.FILES if one.path not in (plan.CA_KEY, plan.API_KEYS)]
)
def test_a_missing_file_is_made_again_where_its_secret_is_there(root: Path, path: str) -> None:
    fill(root)
    before = contents(root)
    (root / path).unlink()
    partner = {
        plan.VERIFY_SECRET: plan.VERIFY_PUBLIC,
        plan.DRAFT_SECRET: plan.DRAFT_PUBLIC,
        plan.DRAFT_KEY: plan.DRAFT_CERT,
        plan.GATEWAY_KEY: plan.GATEWAY_CERT,
    }.get(path)
    if partner is not None:  # what is known to others must not be replaced behind their back
        with pytest.raises(BadSettings, match=partner):
            fill(root)
        return
    assert fill(root).paths == [path]
    after = contents(root)
    assert {name: after[name] for name in before if name != path} == {
        name: before[name] for name in before if name != path
    }
    if path.startswith("curve"):
        assert after[path] == before[path]


def test_a_certificate_is_renewed_with_the_same_key(root: Path) -> None:
    ends = fill(root).ends[plan.DRAFT_CERT]
    assert ends == NOW + timedelta(days=365)
    (root / plan.DRAFT_CERT).unlink()
    made = fill(root, LATER)
    assert made.paths == [plan.DRAFT_CERT]
    leaf = read_leaf((root / plan.DRAFT_CERT).read_bytes())
    assert leaf == (("draft",), LATER + timedelta(days=365))


def test_without_the_roots_key_nothing_is_signed_but_the_rest_goes_on(root: Path) -> None:
    fill(root)
    (root / plan.CA_KEY).unlink()
    assert fill(root).paths == []
    (root / plan.GATEWAY_CERT).unlink()
    with pytest.raises(BadSettings, match=r"ca-key\.pem is needed to sign tls/gateway\.pem"):
        fill(root)


def test_a_certificate_of_another_name_is_named(root: Path) -> None:
    fill(root)
    with pytest.raises(BadSettings, match=r"draft\.pem is for draft, not for draft\.example"):
        fill(root, name="draft.example")


@pytest.mark.parametrize("path", [plan.CA, plan.CA_KEY, plan.DRAFT_CERT, plan.DRAFT_SECRET])
def test_a_file_that_holds_something_else_is_named(root: Path, path: str) -> None:
    fill(root)
    (root / path).write_text("hello")
    for other in (plan.DRAFT_CERT, plan.CA) if path == plan.CA_KEY else ():
        (root / other).unlink()
    with pytest.raises(BadSettings, match=Path(path).name):
        fill(root)


def test_the_curve_files_are_read_by_both_ends(root: Path) -> None:
    fill(root)
    verify = load_curve_keys(root / plan.VERIFY_SECRET, root / "curve")
    draft = load_curve_keys(root / plan.DRAFT_SECRET, root / plan.VERIFY_PUBLIC)
    assert verify.public != draft.public


@pytest.mark.parametrize("name", ["", "Draft", "a b", "-a", "a..b", "a" * 64])
def test_a_name_that_is_none_is_refused(root: Path, name: str) -> None:
    with pytest.raises(BadSettings, match="--draft-name"):
        run_cluster_keys(root, name, NOW)
    assert not root.exists()


def test_the_table_names_each_file_and_the_key_once(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_cluster_keys(root, "draft", NOW)
    shown = capsys.readouterr().out
    assert all(one.path in shown for one in plan.FILES)
    assert shown.count("or-") == 1
    assert "2027-12-01" in shown
    run_cluster_keys(root, "draft", NOW)
    assert "or-" not in capsys.readouterr().out


def test_without_the_extra_the_message_says_what_to_install(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "outrider.cluster_keys.folder", None)
    with pytest.raises(BadSettings, match=r"outrider\[keys\]"):
        run_cluster_keys(root, "draft", NOW)
