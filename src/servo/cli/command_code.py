"""The code that a command is about.

A command that runs beside `servo dev` asks its evaluators and imports nothing. Otherwise the code
is imported here, at the moment when something of it is needed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from rich.text import Text

from servo.cli.loaded_here import evaluator_here
from servo.cli.options.project import is_here, locations, one_location
from servo.cli.options.workspace import Where
from servo.cli.rendering.output import console
from servo.code.choosing import location_defining
from servo.code.evaluator.messages import Answer, Question
from servo.code.examine import Examined, examine
from servo.code.loader import load_location
from servo.code.setting import CodeLocation
from servo.core.declared import Declared
from servo.errors import Invalid, NotFound, Unavailable
from servo.host.questions import EvaluatorOfLeader, answers_questions
from servo.operations.assets import locations_of_assets
from servo.operations.evaluating import Evaluates, run_id_salt
from servo.sdk.definitions.executors import ExecutorDefinition
from servo.sdk.definitions.project import Project
from servo.sdk.triggers.resolution import declared
from servo.workspace.workspace import Workspace


class Selected(msgspec.Struct, frozen=True, kw_only=True):
    """What a command selects, to tell which of several code locations is meant."""

    select: Sequence[str] = ()
    job: str | None = None


NOTHING = Selected()


class CommandCode:
    """The code of one location. Everything but its name and place is found out by importing it."""

    def __init__(self, location: CodeLocation, examined: Examined | None = None) -> None:
        self.location = location
        self._declared = None if examined is None else examined.declared
        self._executor = None if examined is None else examined.executor
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
            self._project = load_location(self.location)
            self._declared = declared(self._project)
            self._executor = self._project.executor
        return self._project

    @property
    def declared(self) -> Declared:
        """What a workspace is told of the code."""
        if self._declared is None:
            _ = self.project
        return self._declared or Declared()

    @property
    def executor(self) -> ExecutorDefinition | None:
        """What limits how many of its tasks run at a time."""
        if self._instead is not None:
            return self._instead
        _ = self.declared
        return self._executor

    def use_executor(self, executor: ExecutorDefinition) -> None:
        """Limit tasks as a job says, and not as the project does."""
        self._instead = executor

    def forget_project(self) -> None:
        """Let go of the project, which is large and not needed once there is a plan."""
        self._project = None

    def evaluator(self, where: Where, workspace: Workspace) -> Evaluates:
        """Who answers questions about the code: the leader of this machine, or this process."""
        here = _EvaluatorWhenAsked(self, where, workspace)
        leader = workspace.leader()
        if leader is None or not answers_questions(leader) or self.name not in leader.locations:
            return here
        return _LeaderFirst(EvaluatorOfLeader(leader, self.name, self.place), here)


class _EvaluatorWhenAsked:
    """Imports the code here when the first question is asked."""

    def __init__(self, code: CommandCode, where: Where, workspace: Workspace) -> None:
        self._code = code
        self._where = where
        self._workspace = workspace

    def ask(self, question: Question, seconds: float) -> Answer:
        """The answer of the code as it is here."""
        evaluator = evaluator_here(
            self._code.project,
            self._workspace.store,
            self._where,
            salt=run_id_salt(self._workspace),
            location=self._code.name,
        )
        return evaluator.ask(question, seconds)


class _LeaderFirst:
    """Asks the leader, and this process if the leader ends meanwhile: asking changes nothing."""

    def __init__(self, leader: EvaluatorOfLeader, here: Evaluates) -> None:
        self._leader = leader
        self._here = here

    def ask(self, question: Question, seconds: float) -> Answer:
        """The answer of whoever can give one."""
        try:
            return self._leader.ask(question, seconds)
        except Unavailable:
            return self._here.ask(question, seconds)


def leader_locations(workspace: Workspace) -> tuple[str, ...]:
    """The code locations of the leader of this machine, if it can be asked about them."""
    leader = workspace.leader()
    return leader.locations if leader is not None and answers_questions(leader) else ()


def one_code(
    given: str | None,
    workspace: Workspace,
    *,
    as_dagster: bool = False,
    selected: Selected = NOTHING,
) -> CommandCode:
    """The code that is named, or the only code that can be meant: here, or at the leader."""
    known = leader_locations(workspace)
    if given is None and (name := _deployed_by_leader(workspace, known, selected)):
        given = name
    try:
        return CommandCode(_location(given, as_dagster=as_dagster, selected=selected))
    except (NotFound, Invalid):
        if given is not None or len(known) != 1:
            raise
        return CommandCode(CodeLocation(name=known[0], code=known[0], folder=str(Path.cwd())))


def _location(given: str | None, *, as_dagster: bool, selected: Selected) -> CodeLocation:
    if given is not None or not (selected.select or selected.job):
        return one_location(given, as_dagster=as_dagster)
    found = locations([], as_dagster=as_dagster)
    return location_defining(found, selected.select, job=selected.job)


def _deployed_by_leader(workspace: Workspace, known: Sequence[str], selected: Selected) -> str:
    """The location of the leader that deployed the selected assets; empty if there is not one."""
    if len(known) < 2 or not selected.select:
        return ""
    found = set(locations_of_assets(selected.select, workspace).values())
    return found.pop() if len(found) == 1 and found <= {*known} else ""


def several_codes(
    given: Sequence[str], *, as_dagster: bool = False
) -> tuple[list[CommandCode], bool]:
    """The code that is named, or all of the project file; whether some of it is broken.

    One location is imported in this process. Several are imported in processes of their own, as
    their modules may have the same names. Broken ones are reported and left out.
    """
    found = locations(given, as_dagster=as_dagster)
    if len(found) == 1:
        return [CommandCode(found[0])], False
    codes: list[CommandCode] = []
    for location, examined in zip(found, examine(found), strict=True):
        if examined.error:
            told = f"skipping {location.name}: {examined.error}"
            console(stderr=True).print(Text(told, "red"), soft_wrap=True)
            continue
        codes.append(CommandCode(location, examined))
    refuse_shared({code.name: code.declared for code in codes})
    return codes, len(codes) < len(found)


def refuse_shared(declared: Mapping[str, Declared]) -> None:
    """`Invalid` if two locations define the same asset: it would be deployed back and forth."""
    owners: dict[str, str] = {}
    for name, its in declared.items():
        for made in its.assets:
            other = owners.setdefault(made.asset_key, name)
            if other != name:
                raise Invalid(
                    f"{made.asset_key} is defined in both {other} and {name}",
                    remedy="define it in one of them, or use another --workspace",
                )
