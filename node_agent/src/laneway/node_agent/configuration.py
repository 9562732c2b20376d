"""The node's configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from laneway.api.config_file import ConfigError, parse_config
from laneway.api.node_config import NodeConfig

DEFAULT_PATH: Final = Path("/etc/laneway/node.yaml")


def read_node_config(path: Path, *, optional: bool) -> NodeConfig:
    """Read the configuration.

    Args:
        path: the file.
        optional: at the default path the file may be missing; the defaults apply then.

    Raises:
        ConfigError: it cannot be read, or something in it is wrong.
    """
    if optional and path == DEFAULT_PATH and not path.exists():
        return NodeConfig()
    return parse_config(read_text(path), NodeConfig, str(path))


def read_text(path: Path) -> str:
    """Return a configuration file's text.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{path}: cannot be read: {reason}") from error
