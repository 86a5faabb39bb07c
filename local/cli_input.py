"""What several commands ask of their arguments: files that can be read, folders that can be written to, ports."""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryFile

from local.cluster_dump import read_input
from local.errors import UserError
from shared.model import Config
from shared.settings.config import ConfigError, parse_config


def read_pools(name: str, *, to_act: bool) -> tuple[str, Config]:
    """The text of a pools file ("-": standard input) and its meaning; `to_act` is that of `parse_config`.

    Raises UserError with a line for each problem of the file.
    """
    data = read_input(name, "pools file", "--pools")
    try:
        return data.decode("utf-8-sig", errors="replace"), parse_config(data, to_act=to_act)
    except ConfigError as error:
        raise UserError("\n".join(f"{name}: {problem}" for problem in error.problems)) from error


def writable_folder(path: Path, flag: str) -> Path:
    """The folder, made where it is missing. Raises UserError when nothing can be written there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path):
            return path
    except OSError as error:
        raise UserError(f"{flag} {path}: {error.strerror}: name a folder that can be written to") from error


def port(text: str) -> int:
    """For `argparse`: 0 to 65535."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: give a number from 1 to 65535, or 0 for a free one")
    return int(text)


def whole_number(text: str) -> int:
    """For `argparse`."""
    try:
        return int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from error
