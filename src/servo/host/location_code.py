"""The code of one location, for a process that may not have to import it.

A command that runs beside `servo dev` asks its evaluators and imports nothing. Otherwise the code
is imported here, at the moment when something of it is needed.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from servo.code.evaluator.messages import EvaluatorAnswer, EvaluatorQuestion
from servo.code.examine import Examined, watched_files
from servo.code.finding import is_here
from servo.code.process_setup import ProcessSetup
from servo.code.sources import loaded_code
from servo.core.declared import Declared
from servo.errors import Invalid, Unavailable
from servo.host.evaluators import evaluator_here
from servo.host.import_here import import_here
from servo.host.leading import LeadingHost
from servo.host.questions import EvaluatorOfLeader, answers_questions
from servo.host.same_code import wait_for_version
from servo.leader.leases.lease import HostedTriggers
from servo.leader.loaded_code import LoadedCode
from servo.operations.interface.evaluating import Evaluates, run_id_salt
from servo.sdk.definitions.executors import ExecutorDefinition, at_most
from servo.sdk.definitions.project import Project
from servo.sdk.triggers.resolution import declared
from servo.workspace.address import Address
from servo.workspace.code_location import CodeLocation
from servo.workspace.composition import without_user_libraries
from servo.workspace.redacted_events import without_secrets
from servo.workspace.workspace import Workspace


class LocationCode:
    """The code of one location. It is imported when more than its name and place is needed.

    `warn` is called with the reason if it has to wait for a leader.
    """

    def __init__(
        self,
        location: CodeLocation,
        examined: Examined | None = None,
        *,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.location = location
        self.warn = warn
        self._declared = None if examined is None else examined.declared
        self._executor = None if examined is None else examined.executor
        self._files = () if examined is None else examined.files
        self._instead: ExecutorDefinition | None = None
        self._project: Project | None = None

    @property
    def name(self) -> str:
        """The name of the location."""
        return self.location.name

    @property
    def place(self) -> str:
        """Where the code is; empty if it is not on this machine, or not in this folder."""
        return self.location.place if is_here(self.location) else ""

    @property
    def project(self) -> Project:
        """What the code defines."""
        if self._project is None:
            self._project = import_here(self.location)
            self._declared = without_secrets(declared(self._project))
            self._executor = self._project.executor
        return self._project

    @property
    def declared(self) -> Declared:
        """The definitions that are deployed to a workspace."""
        if self._declared is None:
            _ = self.project
        return self._declared or Declared()

    @property
    def loaded(self) -> LoadedCode:
        """Its source files, for a leader that tells other processes which version it has."""
        _ = self.declared
        files = self._files or watched_files(self.location.code, Path(self.location.folder))
        return loaded_code(self.location, files)

    @property
    def executor(self) -> ExecutorDefinition | None:
        """What limits how many of its tasks run at a time."""
        if self._instead is not None:
            return self._instead
        _ = self.declared
        return self._executor

    def use_executor(self, executor: ExecutorDefinition) -> None:
        """Use the limits of a job instead of those of the project."""
        self._instead = executor

    def forget_project(self) -> None:
        """Release the project, which is large and not needed once there is a plan."""
        self._project = None

    def evaluator(self, address: Address, workspace: Workspace) -> Evaluates:
        """The evaluator of the code: the leader on this machine, or this process."""
        here = _EvaluatorWhenAsked(self, address, workspace)
        leader = workspace.leader()
        if leader is None or not answers_questions(leader) or self.name not in leader.locations:
            return here
        asks = EvaluatorOfLeader(leader, self.location, here=is_here(self.location))
        return _LeaderFirst(asks, here)


class _EvaluatorWhenAsked:
    """Imports the code here when the first question is asked."""

    def __init__(self, code: LocationCode, address: Address, workspace: Workspace) -> None:
        self._code = code
        self._address = address
        self._workspace = workspace

    def ask(self, question: EvaluatorQuestion, seconds: float) -> EvaluatorAnswer:
        """The answer of the code in this process, once the leader has the same version."""
        wait_for_version(self._workspace, self._code.location, self._code.warn)
        setup = ProcessSetup(location=self._code.location, address=self._address)
        store, salt = self._workspace.store, run_id_salt(self._workspace)
        evaluator = evaluator_here(self._code.project, setup, store, salt=salt)
        return evaluator.ask(question, seconds)


class _LeaderFirst:
    """Asks the leader, and this process if the leader ends meanwhile: asking changes nothing."""

    def __init__(self, leader: EvaluatorOfLeader, here: Evaluates) -> None:
        self._leader = leader
        self._here = here

    def ask(self, question: EvaluatorQuestion, seconds: float) -> EvaluatorAnswer:
        """The answer of the leader, or else of this process."""
        try:
            return self._leader.ask(question, seconds)
        except Unavailable:
            return self._here.ask(question, seconds)


def lead_with(
    codes: Sequence[LocationCode],
    address: Address,
    *,
    workers: int,
    triggers: HostedTriggers,
    command: str,
) -> LeadingHost:
    """A host that leads a workspace with this code, which it deploys; `LedByAnother` if it cannot.

    Each location has as many workers as are given, or fewer if its executor allows fewer tasks.
    """
    declared = {code.name: code.declared for code in codes}
    without_user_libraries()
    return LeadingHost(
        *(ProcessSetup(location=code.location, address=address) for code in codes),
        workers={code.name: at_most(workers, code.executor) for code in codes},
        triggers=triggers,
        command=command,
        declared=declared,
        loaded={code.name: code.loaded for code in codes},
    )


def refuse_shared(declared: Mapping[str, Declared]) -> None:
    """`Invalid` if two locations define the same asset: it would be deployed back and forth."""
    owners: dict[str, str] = {}
    for name, its in declared.items():
        for made in its.assets:
            other = owners.setdefault(made.asset_key, name)
            if other != name:
                raise Invalid(
                    f"{made.asset_key} is defined in both {other} and {name}",
                    remedy="define it in only one of them, or use another workspace",
                )
