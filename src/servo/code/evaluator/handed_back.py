"""What schedules and sensors hand back: refused if it holds a secret and must not be changed.

Every answer of an evaluator is redacted (see `servo.code.evaluator.redacted_answers`). But some
values do their work only as they are: a redacted run key or partition key could be that of another
request, and user code would get a redacted cursor or configuration back. A secret there is an error
that names the field.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from servo.core.tags import CONFIG_LABEL
from servo.sdk.partitions.definition import AddDynamicPartitionsRequest
from servo.sdk.resources.redaction import refuse_secrets
from servo.sdk.triggers.run_requests import RunRequest, SensorResult
from servo.workspace.redacted_events import tags_without_secrets
from servo.workspace.run_requests import with_config


def check_result(found: SensorResult, what: str) -> None:
    """Raise `Invalid` for a secret in the cursor or in a new partition key of a result."""
    refuse_secrets(found.cursor or "", f"{what}: the cursor")
    for request in found.dynamic_partitions_requests or ():
        if isinstance(request, AddDynamicPartitionsRequest):
            for key in request.partition_keys:
                refuse_secrets(key, f"{what}: a new key of {request.partitions_def_name}")


def checked_request(request: RunRequest, what: str) -> RunRequest:
    """A request with redacted tags; `Invalid` if there is a secret in its run key.

    Its partition need not be checked, which is one of the definition, unless only checks run.
    """
    refuse_secrets(request.run_key or "", f"{what}: a run key")
    if request.asset_check_keys is not None:
        refuse_secrets(request.partition_key or "", f"{what}: a partition key")
    return msgspec.structs.replace(request, tags=tags_without_secrets(request.tags or {}))


def refuse_config(config: Mapping[str, Any], what: str) -> None:
    """Raise `Invalid` for a secret in the configuration of a run."""
    refuse_secrets(
        with_config({}, config).get(CONFIG_LABEL, ""),
        f"{what}: the run_config",
        remedy="pass the Secret or EnvVar itself, which the worker reads",
    )
