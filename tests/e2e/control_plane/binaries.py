"""Which programs make the control plane, and where their builds are kept.

Builds are filed under a hash of everything that decides their content (the
go.mod, go.sum and tools files beside this module), so a version bump can never
meet a stale binary, and two checkouts on different versions share one cache.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).parent / "modules"


@dataclass(frozen=True, slots=True)
class Program:
    """One binary: its name, our module that pins it, the package it is built from."""

    name: str
    module: str
    package: str


PROGRAMS = (
    Program("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    Program("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    Program("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    Program("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
)

STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-complete.yaml",
    "pod/fast/pod-delete.yaml",
)
"""What kwok plays, as named in its own repository; without stages it refuses to start."""

SHIPPED_AS_ASSETS = frozenset({"etcd", "kube-apiserver"})
"""What the folder named by KUBEBUILDER_ASSETS contains; the rest is always ours to build."""


class BinariesMissingError(RuntimeError):
    """The control plane was asked for before it was built."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """Where each program and kwok's stage files are, or will be once built."""

    home: Path
    assets: Path | None = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> "Binaries":
        """Find the cache of the versions pinned in this checkout."""
        cache = Path(environ.get("SLUICE_CACHE") or Path.home() / ".cache" / "sluice").absolute()
        assets = environ.get("KUBEBUILDER_ASSETS")
        home = cache / "control-plane" / recipe_hash()
        return cls(home, Path(assets).absolute() if assets else None)

    @property
    def stages(self) -> Path:
        """The folder of kwok's stage files."""
        return self.home / "stages"

    def path(self, name: str) -> Path:
        """Where to run `name` from: the given assets first, then our own build."""
        if self.assets and name in SHIPPED_AS_ASSETS and (self.assets / name).exists():
            return self.assets / name
        return self.home / "bin" / name

    def stage_files(self) -> tuple[Path, ...]:
        """Every stage file kwok is started with."""
        return tuple(self.stages / Path(stage).name for stage in STAGES)

    def missing(self) -> tuple[Program, ...]:
        """The programs that are still to be built."""
        return tuple(program for program in PROGRAMS if not self.path(program.name).exists())

    def require(self) -> None:
        """Refuse to go on with a half-built control plane, naming the command that cures it."""
        absent = [program.name for program in self.missing()]
        absent += [file.name for file in self.stage_files() if not file.exists()]
        if absent:
            raise BinariesMissingError(
                f"not built yet in {self.home}: {', '.join(absent)}; run: python -m tests.e2e.control_plane.build"
            )


def recipe_hash(modules: Path = MODULES) -> str:
    """Name the content of our go modules in 16 hex digits."""
    digest = hashlib.sha256()
    for file in sorted((*modules.rglob("go.mod"), *modules.rglob("go.sum"), *modules.rglob("*.go"))):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(modules).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]
