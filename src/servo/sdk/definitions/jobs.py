"""Jobs: a named selection of assets that runs as one."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.assets.hooks import check_hooks
from servo.sdk.assets.retries import RetryPolicy
from servo.sdk.checks.definition import AssetCheckKey
from servo.sdk.checks.selection import chosen_of
from servo.sdk.definitions.executors import check_executor
from servo.sdk.definitions.project import Project
from servo.sdk.option_kinds import by_name, of_kind
from servo.sdk.resources.run_config import RunConfig
from servo.sdk.selection.selection import AssetSelection


class AssetJob(msgspec.Struct, frozen=True, kw_only=True):
    """A named selection of assets, and how to run them."""

    name: str
    selection: Any = "*"
    config: Any = None
    description: str | None = None
    tags: Mapping[str, str] = {}
    run_tags: Mapping[str, str] = {}
    metadata: Mapping[str, Any] = {}
    partitions_def: Any = None
    executor_def: Any = None
    hooks: tuple[Any, ...] = ()
    op_retry_policy: RetryPolicy | None = None

    def keys(self, project: Project) -> list[AssetKey]:
        """The assets that the job materializes; `Invalid` if it selects nothing."""
        chosen = AssetSelection.from_coercible(self.selection).resolve(project)
        if not project.executable(chosen) and not self.checks(project):
            raise Invalid(
                f"the job {self.name} selects no executable asset and no check",
                remedy="change its selection",
            )
        return chosen

    def checks(self, project: Project) -> frozenset[AssetCheckKey] | None:
        """The checks that the job runs; None for all checks of its assets.

        A job may leave out checks of its assets, or select only checks.
        """
        return chosen_of(AssetSelection.from_coercible(self.selection), project)

    def run_config(self) -> dict[str, Any]:
        """The run config of its runs."""
        return RunConfig.of(self.config).to_config_dict() if self.config is not None else {}


def define_asset_job(  # noqa: PLR0913 - the options people know
    name: str,
    selection: Any = None,
    *,
    config: Any = None,
    description: str | None = None,
    tags: Mapping[str, str] | None = None,
    run_tags: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    partitions_def: Any = None,
    executor_def: Any = None,
    hooks: Iterable[Any] | None = None,
    op_retry_policy: RetryPolicy | None = None,
) -> AssetJob:
    """Define a job that materializes the selected assets, or all of them.

        nightly = define_asset_job("nightly", selection="+report", tags={"team": "sales"})

    Args:
        name: letters, digits, dashes and underscores.
        selection: an `AssetSelection`, a selection string, assets or keys; all assets by
            default.
        config: the run config of its runs.
        description: what the job is for.
        tags: tags of the job and of its runs.
        run_tags: more tags of its runs.
        metadata: metadata of the job.
        partitions_def: the partitions for `build_schedule_from_partitioned_job`.
        executor_def: limits the number of concurrent tasks.
        hooks: hooks for every asset of the job.
        op_retry_policy: the retry policy for assets of its runs that have none of their own.
    """
    of_kind(name, str, what="the name of a job", remedy="use a string")
    if not name or not name.replace("_", "").replace("-", "").isalnum():
        raise Invalid(
            f"invalid job name {name!r}", remedy="use letters, digits, dashes and underscores"
        )
    if selection is not None:
        _ = AssetSelection.from_coercible(selection)
    _ = RunConfig.of(config)
    remedy = "use RetryPolicy(max_retries=3)"
    of_kind(op_retry_policy, RetryPolicy, what=f"job {name}: op_retry_policy", remedy=remedy)
    return AssetJob(
        name=name,
        selection="*" if selection is None else selection,
        config=config,
        description=description,
        tags=by_name(tags, what=f"job {name}: tags"),
        run_tags=by_name(run_tags, what=f"job {name}: run_tags"),
        metadata=by_name(metadata, what=f"job {name}: metadata"),
        partitions_def=partitions_def,
        executor_def=check_executor(executor_def, what=f"job {name}"),
        hooks=check_hooks(hooks, what=f"job {name}"),
        op_retry_policy=op_retry_policy,
    )
