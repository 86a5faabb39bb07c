"""Which release of the app a Functions host runs: the present one, or another, loaded beside it under other names.

So that both can live in one process, every import of the other one's own packages leads to its own modules.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from functions.app import create_app
from local.durable import versions
from local.system.services import Doors, InProcess
from local.timeline import Timeline

OWN: Final = frozenset({"functions", "shared", "local", "exporter"})
Edit = Callable[[str, str], str]
"""Changes a module's source as it is loaded: (dotted name, text) to text."""


@dataclass(frozen=True, slots=True)
class Release:
    """The app as one version has it. `version`: `defaultVersion` of its host.json."""

    version: str
    create_app: Callable[[Any], Any]
    in_process: Callable[..., Any]

    def app(self, doors: Doors, timeline: Timeline, *, direct_blobs: bool) -> Any:  # noqa: ANN401 - the SDK's object
        """The app on adapters of its own version, whose requests go to these doors."""
        return self.create_app(self.in_process(doors, timeline, direct_blobs=direct_blobs).services())


PRESENT: Final = Release(versions.of_tree(), create_app, InProcess)
Releases = Callable[[int], Release]
"""What the first host runs (0), and the one after so many crashes."""


def load(tree: Path, name: str, edit: Edit | None = None) -> Release:
    """The release whose sources lie in `tree`, under the package `name`, which must be new to this process."""
    if name in sys.modules:
        raise ValueError(f"{name} is loaded already")
    package = ModuleType(name)
    package.__path__ = [str(tree)]
    sys.modules[name] = package
    sys.meta_path.insert(0, _Finder(name, edit or (lambda _, text: text)))
    return Release(
        versions.of_tree(tree),
        importlib.import_module(f"{name}.functions.app").create_app,
        importlib.import_module(f"{name}.local.system.services").InProcess,
    )


def unload(name: str) -> None:
    """Forget a release that nobody runs any more."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not (isinstance(finder, _Finder) and finder.name == name)]
    for module in [module for module in sys.modules if module == name or module.startswith(f"{name}.")]:
        del sys.modules[module]


class _Finder(MetaPathFinder):
    """Finds the modules of one loaded release."""

    def __init__(self, name: str, edit: Edit) -> None:
        self.name, self._edit = name, edit

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,  # noqa: ARG002 - the protocol's signature
    ) -> ModuleSpec | None:
        """See `MetaPathFinder`."""
        if path is None or not fullname.startswith(f"{self.name}."):
            return None

        def loader(module: str, file: str) -> SourceFileLoader:
            return _Loader(module, file, self.name, self._edit)

        found = (FileFinder(folder, (loader, [".py"])).find_spec(fullname) for folder in path)  # type: ignore[arg-type]  # a function that makes loaders is as good as their class
        return next((spec for spec in found if spec is not None), None)


class _Loader(SourceFileLoader):
    """Compiles a module so that it imports its own release; nothing is cached where the present one would find it."""

    def __init__(self, module: str, file: str, name: str, edit: Edit) -> None:
        super().__init__(module, file)
        self._release, self._edit = name, edit

    def get_code(self, fullname: str) -> CodeType:
        """See `InspectLoader`."""
        path = self.get_filename(fullname)
        text = self._edit(fullname.removeprefix(f"{self._release}."), self.get_data(path).decode())
        return compile(_Rename(self._release).visit(ast.parse(text, path)), path, "exec", dont_inherit=True)


class _Rename(ast.NodeTransformer):
    """Sends imports of the project's own packages to the release's."""

    def __init__(self, name: str) -> None:
        self._name = name

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        """`from shared.model import Pool`."""
        if not node.level and node.module and node.module.partition(".")[0] in OWN:
            node.module = f"{self._name}.{node.module}"
        return node

    def visit_Import(self, node: ast.Import) -> ast.Import:
        """`import shared.model as model`; without a name of its own it would bind the package `shared`."""
        for alias in node.names:
            if alias.name.partition(".")[0] in OWN:
                if alias.asname is None:
                    raise ImportError(f"import {alias.name}: write it as `from ... import`")
                alias.name = f"{self._name}.{alias.name}"
        return node
