"""Reading a configuration text into its model, with messages that a person can act on."""

from __future__ import annotations

from typing import TypeVar

import yaml
from laneway.api.records import explain
from pydantic import BaseModel, ValidationError

ModelType = TypeVar("ModelType", bound=BaseModel)


class ConfigError(Exception):
    """A configuration file is wrong; the text names the file, the field and what was found."""


def parse_config(text: str, model: type[ModelType], source: str) -> ModelType:
    """Return the YAML text as a model; an empty text gives the defaults.

    Raises:
        ConfigError: it is not YAML, or not what the model wants.
    """
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{source}: this is not YAML: {error}") from error
    try:
        return model.model_validate({} if data is None else data)
    except ValidationError as error:
        raise ConfigError(explain(error, source, model)) from error
