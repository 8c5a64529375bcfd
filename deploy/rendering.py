"""What is rendered of deploy/kustomize: base, base with components, overlays, Secrets.

Lays out kustomizations; renders and judges nothing.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from deploy.manifests import DEPLOY

KUSTOMIZE = DEPLOY / "kustomize"


def roots(work: Path) -> Iterator[tuple[str, Path]]:
    """What is rendered: a name and a folder each."""
    yield "base", KUSTOMIZE / "base"
    for component in sorted((KUSTOMIZE / "components").rglob("kustomization.yaml")):
        # A component within another one needs that one.
        folders = [one for one in (component.parent.parent, component.parent) if holds_one(one)]
        name = str(component.parent.relative_to(KUSTOMIZE / "components"))
        yield f"base + {name}", stage(work, f"base-{name}", folders)
    parts = KUSTOMIZE / "components"
    for name in ("colocated + gpu-claim", "disaggregated + tensor-parallel"):
        yield f"base + {name}", stage(work, name, [parts / one for one in name.split(" + ")])
    for overlay in sorted((KUSTOMIZE / "overlays").iterdir()):
        yield f"overlays/{overlay.name}", overlay
    if (work / "secrets").is_dir():
        yield "secrets", work / "secrets"


def holds_one(folder: Path) -> bool:
    """True for a folder with a component in it."""
    return (folder / "kustomization.yaml").is_file()


def stage(work: Path, name: str, components: Sequence[Path]) -> Path:
    """A kustomization that adds components to the base, in a folder of its own."""
    folder = work / "stage" / name.replace("/", "-").replace(" ", "")
    folder.mkdir(parents=True)

    def seen(path: Path) -> str:
        return os.path.relpath(path.resolve(), folder.resolve())

    lines = [
        "apiVersion: kustomize.config.k8s.io/v1beta1", "kind: Kustomization",
        "namespace: outrider", f"resources: [{seen(KUSTOMIZE / 'base')}]", "components:",
        *(f"  - {seen(one)}" for one in components),
    ]  # fmt: skip
    (folder / "kustomization.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
