"""The environment of an evaluation: the project, the store, and how a request becomes a run.

A request names a job or assets, and optionally a partition, a config and tags. It becomes the two
events that create a run: the request and the plan. Two requests with the same run key are the same
if they request the same thing, even if the code has changed since: the fingerprint is that of the
request, not of the plan.
"""

import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import PurePath
from typing import Any

import msgspec

from servo.code.evaluator.handed_back import checked_request, refuse_config
from servo.code.evaluator.history import History
from servo.code.evaluator.messages import RequestedRun
from servo.code.evaluator.plan_store import PlanStore
from servo.code.evaluator.staleness import stale_of
from servo.core.canonical import sha256_hex
from servo.core.events.assets import DynamicPartitionsChanged
from servo.core.events.runs import SourceRef
from servo.core.keys import AssetKey
from servo.core.plan import Plan
from servo.core.tags import JOB_LABEL, PARTITION_LABEL
from servo.errors import Invalid, NotFound, ServoError
from servo.planning.assets import plan_assets, plan_partitions
from servo.planning.job_retries import with_job_retries
from servo.ports.clock import Clock
from servo.ports.entropy import Entropy
from servo.processes.own_code import is_own
from servo.projection.read.cold import ColdRows
from servo.projection.read.reader import Reader
from servo.projection.read.replay import PRESENT
from servo.projection.read.time_travel import snapshot_at
from servo.sdk.assets.context import Logger
from servo.sdk.checks.definition import AssetCheckKey
from servo.sdk.definitions.jobs import AssetJob
from servo.sdk.definitions.project import Project
from servo.sdk.partitions.mapping_resolution import Moment
from servo.sdk.resources.redaction import hidden
from servo.sdk.resources.resources import InitResourceContext, Resources, open_resources
from servo.sdk.triggers.resolution import Resolved, resolve
from servo.sdk.triggers.run_requests import RunRequest
from servo.sdk.triggers.targets import Target
from servo.workspace.redacted_events import redact_tags_of_runs
from servo.workspace.run_requests import WantedRun, with_config

UP_TO_DATE = "nothing it selects is stale"


class Trigger(msgspec.Struct, frozen=True, kw_only=True):
    """The schedule or sensor that requests a run, its default target and its labels."""

    what: str
    source: SourceRef
    target: Target | None = None
    labels: Mapping[str, str] = {}


class EvaluatorEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """What user code can access during an evaluation."""

    clock: Clock
    entropy: Entropy
    log: Logger
    environ: Mapping[str, str]
    instance: Callable[[], Any]


class CheckScope(msgspec.Struct, frozen=True, kw_only=True):
    """The checks of a run, and the assets that it only checks."""

    checks: frozenset[AssetCheckKey]
    alone: tuple[AssetKey, ...] = ()


class LoadedLocation:
    """A code location, in a process that has imported its code."""

    def __init__(self, project: Project, records: PlanStore, around: EvaluatorEnvironment) -> None:
        self.project = project
        self.clock = around.clock
        self.log = around.log
        self.instance = around.instance
        self.records = records
        self.condition_evaluators: dict[str, Any] = {}
        self.backfills: dict[str, Any] = {}
        self._environ = around.environ
        self._entropy = around.entropy
        self._plans: dict[tuple[tuple[AssetKey, ...], frozenset[AssetCheckKey] | None], Plan] = {}

    @cached_property
    def history(self) -> History:
        """What the workspace has recorded."""
        store, paths = self.records.store, self.records.paths
        pause = threading.Event().wait
        return History(Reader(store, paths), ColdRows(store), self.clock, pause)

    def resources(self, needed: Sequence[str]) -> AbstractContextManager[Resources]:
        """The resources that user code requests, opened."""
        context = InitResourceContext(log=self.log)
        return open_resources(self.project.resources, needed, self._environ, context=context)

    def run(
        self,
        trigger: Trigger,
        request: RunRequest,
        run_key: str,
        *,
        changing: Sequence[DynamicPartitionsChanged] = (),
    ) -> RequestedRun | None:
        """The run for a request, with this key; None if everything it requests is up to date.

        `changing` are the dynamic partitions that come and go in the same batch, before the run.
        """
        request = checked_request(request, trigger.what)
        resolved = self._resolved(trigger, request)
        labels = self._labels(trigger, resolved.job, request)
        asked = resolved
        if request.stale_assets_only and request.asset_check_keys is None:
            asked = resolved.only(self._stale(resolved.keys, request.partition_key))
            if not asked.keys:
                return None
        plan = (
            self._plan(asked, request, changing)
            if request.asset_check_keys is None
            else self._checks(resolved.keys, request, trigger.what)
        )
        wanted = WantedRun(
            plan=with_job_retries(plan, self.project, resolved.job),
            run_key=run_key,
            tags=labels,
            source=trigger.source,
            fingerprint=_fingerprint(resolved, request, labels),
            partitions=() if request.partition_key is None else (str(request.partition_key),),
            text=_text(trigger, resolved),
            location=self.records.location,
        )
        requested, planned = self.records.run_events(wanted)
        return RequestedRun(requested=requested, planned=planned)

    def run_of(  # noqa: PLR0913 - all that a request of a run holds
        self,
        wanted: Mapping[AssetKey, Sequence[str]],
        run_key: str,
        labels: Mapping[str, str],
        *,
        source: SourceRef,
        moment: Moment,
        checked: CheckScope | None = None,
        text: str = "",
    ) -> RequestedRun:
        """The run that materializes these partitions of these assets, with this key.

        `checked` are additional checks, and the assets that the run only checks; `text` says what
        requested the run.
        """
        plan = plan_partitions(
            self.project,
            wanted,
            checks=None if checked is None else checked.checks,
            only_checked=() if checked is None else checked.alone,
            now=moment.now,
            dynamic_partitions=moment.store,
        )
        held = self.records
        asked = WantedRun(
            plan=plan,
            run_key=run_key,
            tags=labels,
            source=source,
            location=held.location,
            text=text,
        )
        requested, planned = held.run_events(asked)
        return RequestedRun(requested=requested, planned=planned)

    def _stale(self, keys: tuple[AssetKey, ...], partition: str | None) -> tuple[AssetKey, ...]:
        """The stale ones among these assets."""
        held = self.records
        try:
            snapshot = snapshot_at(held.store, held.paths, PRESENT)
        except NotFound:
            return keys  # everything is stale in a workspace that does not exist yet
        return stale_of(self.project, keys, partition, snapshot=snapshot, now=self.clock.now())

    def token(self) -> str:
        """A unique text."""
        return self._entropy.token_bytes(6).hex()

    def _resolved(self, trigger: Trigger, request: RunRequest) -> Resolved:
        target = trigger.target
        if request.job_name is not None:
            target = Target(job_name=request.job_name)
        if request.asset_check_keys is not None and request.asset_selection is None:
            return Resolved(keys=())
        if target is None:
            if request.asset_selection is None:
                raise Invalid(
                    f"{trigger.what} requests a run without assets",
                    remedy="give it a target, or its RunRequest an asset_selection or job_name",
                )
            return self._narrowed(Resolved(keys=()), request, trigger.what)
        found = resolve(self.project, target, what=trigger.what)
        return (
            found
            if request.asset_selection is None
            else self._narrowed(found, request, trigger.what)
        )

    def _narrowed(self, found: Resolved, request: RunRequest, what: str) -> Resolved:
        """The assets that a request names; they must belong to the target."""
        wanted: Sequence[AssetKey] = tuple(request.asset_selection or ())
        for key in wanted:
            if key not in self.project.specs or (found.keys and key not in found.keys):
                raise Invalid(
                    f"{what} requests {key}, which "
                    + (
                        "is not an asset"
                        if key not in self.project.specs
                        else "is not in its target"
                    ),
                    remedy="correct its asset_selection, or its target",
                )
        return found.only(wanted)

    def _labels(
        self, trigger: Trigger, job: AssetJob | None, request: RunRequest
    ) -> dict[str, str]:
        config: dict[str, Any] = job.run_config() if job else {}
        config |= request.run_config or {}
        own = {**job.tags, **job.run_tags, JOB_LABEL: job.name} if job else {}
        if request.partition_key is not None:
            own[PARTITION_LABEL] = str(request.partition_key)
        refuse_config(config, trigger.what)
        labels = with_config({**own, **(request.tags or {}), **trigger.labels}, config)
        return redact_tags_of_runs(labels, hidden())

    def _checks(self, keys: tuple[AssetKey, ...], request: RunRequest, what: str) -> Plan:
        """The plan of a run of some checks, and of the assets it also names."""
        known = {
            spec.key
            for hosted in self.project.checks.values()
            for bound in hosted
            for spec in bound.definition.specs
        }
        for check in request.asset_check_keys or ():
            if check not in known:
                raise Invalid(
                    f"{what} requests an unknown check: {getattr(check, 'name', check)!r}",
                    remedy="use AssetCheckKey(asset, name) of a check of the project",
                )
        return plan_assets(self.project, keys, checks=tuple(request.asset_check_keys or ()))

    def _plan(
        self,
        asked: Resolved,
        request: RunRequest,
        changing: Sequence[DynamicPartitionsChanged],
    ) -> Plan:
        if request.partition_key is not None:
            return plan_assets(
                self.project,
                asked.keys,
                checks=asked.checks,
                partition_keys=[request.partition_key],
                now=self.clock.now(),
                dynamic_partitions=_Changed(self.instance(), changing),
            )
        known = (asked.keys, asked.checks)
        if known not in self._plans:
            self._plans[known] = plan_assets(self.project, asked.keys, checks=asked.checks)
        return self._plans[known]


class _Changed:
    """The dynamic partitions of a workspace, as they will be once some have come and gone."""

    def __init__(self, instance: Any, changing: Sequence[DynamicPartitionsChanged]) -> None:
        self._instance = instance
        self._changing = changing

    def get_dynamic_partitions(self, partitions_def_name: str) -> list[str]:
        """The keys of a set."""
        return list(as_they_will_be(self._instance, self._changing, partitions_def_name))


def as_they_will_be(
    instance: Any, changing: Sequence[DynamicPartitionsChanged], set_name: str
) -> dict[str, None]:
    """The keys of a set of dynamic partitions, once some have come and gone."""
    keys = dict.fromkeys(instance.get_dynamic_partitions(set_name))
    for change in changing:
        if change.set_name == set_name:
            keys |= dict.fromkeys(change.added)
            for key in change.removed:
                keys.pop(key, None)
    return keys


def _text(trigger: Trigger, resolved: Resolved) -> str:
    """What requested a run, and for which job if there is one."""
    return f"{trigger.what}: job {resolved.job.name}" if resolved.job else trigger.what


def _fingerprint(resolved: Resolved, request: RunRequest, labels: Mapping[str, str]) -> str:
    asked: dict[str, Any] = {
        "assets": sorted(key.canonical() for key in resolved.keys),
        "job": resolved.job.name if resolved.job else "",
        "partition": str(request.partition_key or ""),
        "labels": dict(labels),
    }
    if request.stale_assets_only:
        asked["stale"] = "only"
    if request.asset_check_keys is not None:
        asked["checks"] = sorted(
            f"{check.asset_key.canonical()}:{check.name}" for check in request.asset_check_keys
        )
    return f"v1:sha256:{sha256_hex(asked)}"


def told(error: BaseException) -> str:
    """What went wrong, in one line, with its place in the user's own code and without secrets."""
    if isinstance(error, ServoError):
        return _as_text(str(error))
    place = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if not is_own(frame.filename) and not frame.filename.startswith("<"):
            place = f" ({PurePath(frame.filename).name}:{frame.lineno})"
    return _as_text(f"{type(error).__name__}: {error}{place}")


def _as_text(words: str) -> str:
    """Words without secrets, and without what is not text, such as names of files may hold."""
    return hidden().text(words).encode(errors="backslashreplace").decode()
