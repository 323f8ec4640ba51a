"""The condition of an asset: its sensor, its last evaluation, and what it lacks."""

from collections.abc import Iterable, Iterator, Sequence
from shlex import quote

from msgspec.structs import replace

from servo.core.automation.assets import subject as named_key
from servo.core.automation.telling import count as parts
from servo.core.automation.telling import deciding, lacking, named, read_tree, truth, was_first
from servo.core.automation.trees import Tree
from servo.core.explain.finding import Finding, FindingStatus, What
from servo.core.explain.limits import NOBODY
from servo.core.explain.records import Records, Subject
from servo.core.explain.words import instant, listed, plural
from servo.core.state.rows.automation import SensorDefinitionRow
from servo.core.state.rows.conditions import AutomationEvaluationRow, AutomationStateRow
from servo.core.state.states import SensorStatus

MOST_PARTS = 150
MOST_ASSETS = 3
NO_NEWS = (
    "changes before this first evaluation do not count: materialize it by hand to include them"
)


def condition(records: Records, subject: Subject) -> list[Finding]:
    """The conditions of an asset and its checks, each with its last evaluation."""
    key = subject.asset_key
    asset = records.asset(key)
    if asset is None:
        return []
    found: list[Finding] = []
    if asset.automation_condition:
        text = f"its automation condition: {asset.automation_condition}"
        found.append(_condition(records, key, text))
    for check, told in sorted(asset.check_conditions.items()):
        text = f"the automation condition of its check {check}: {told}"
        found.append(_condition(records, named_key((key, check)), text))
    return found


def _condition(records: Records, key: str, text: str) -> Finding:
    found = Finding(what=What.CONDITION, status=FindingStatus.NOTE, subject=key, text=text)
    sensor = evaluator_of(key, records.automation_sensors(), records.condition_states(key))
    if sensor is None:
        next_ = "no sensor evaluates it yet: start `servo dev` with the code that defines it"
        return replace(found, status=FindingStatus.WAITS, next=next_)
    return _evaluated(records, found, sensor.sensor_id)


def evaluator_of(
    asset_key: str,
    sensors: Sequence[SensorDefinitionRow],
    states: Iterable[AutomationStateRow],
) -> SensorDefinitionRow | None:
    """The sensor that evaluates the condition of an asset.

    A sensor with very many assets lists only some of them, and is found by what it evaluated.
    """
    naming = (row for row in sensors if asset_key in row.asset_selection)
    there = {row.sensor_id: row for row in sensors}
    known = (there[row.sensor_id] for row in states if row.sensor_id in there)
    only = sensors[0] if len(sensors) == 1 else None
    return next(naming, None) or next(known, None) or only


def _evaluated(records: Records, found: Finding, sensor_id: str) -> Finding:
    """The condition with the result of its sensor, and whether it will be evaluated again."""
    row = records.last_condition(sensor_id, found.subject)
    told = f"{found.text}, evaluated by {sensor_id}"
    if row is None:
        found = replace(
            found, text=f"{told}, which has not evaluated it yet", status=FindingStatus.WAITS
        )
    else:
        found = replace(
            found, text=told, next=_next(row), because=(evaluation(row, whole=records.whole),)
        )
    state = records.sensor_state(sensor_id)
    if state is not None and state.status is SensorStatus.PAUSED:
        return replace(
            found,
            status=FindingStatus.WAITS,
            text=f"{told}, which is paused",
            next="resume it",
            command=f"servo automation resume {quote(sensor_id)}",
        )
    if records.led is False:
        then = f"{NOBODY}: `servo dev` evaluates it"
        return replace(found, next=f"{found.next}; {then}" if found.next else then)
    return found


def _next(row: AutomationEvaluationRow) -> str:
    tree = read_tree(row.tree)
    parts = lacking(tree) if tree is not None and not row.requested_count else []
    if tree is None or not parts:
        return ""
    said = f"it will be requested when {listed(parts)}"
    return f"{said}; {NO_NEWS}" if was_first(tree) else said


def evaluation(row: AutomationEvaluationRow, *, whole: bool = False) -> Finding:
    """An evaluation of a condition; with `whole`, also the parts that did not decide it."""
    count = row.requested_count
    tree = read_tree(row.tree)
    asked = f"requested {requested_words(count, tree)}"
    kept = "" if tree is not None else "; the reason was not kept"
    head = f"{row.asset_key}, evaluation {row.tick} at {instant(row.evaluated_at)}"
    found = Finding(
        what=What.EVALUATION,
        status=FindingStatus.DONE if count else FindingStatus.NOTE,
        subject=row.asset_key,
        text=f"{head}: {asked}{kept}",
        at=row.evaluated_at,
        seq=row.row_version,
    )
    if tree is None:
        return found
    shown = tree if whole else deciding(tree)
    because = [_Parts(MOST_PARTS).part(shown)]
    hidden = parts(tree) - parts(shown)
    if hidden:
        text = f"{plural(hidden, 'part')} did not decide; show them with --all"
        because.append(Finding(what=What.MORE, status=FindingStatus.NOTE, subject="", text=text))
    return replace(found, because=tuple(because))


def requested_words(count: int, tree: Tree | None) -> str:
    """What an evaluation requested, in a few words."""
    if not count:
        return "nothing"
    if tree is not None and tree.of <= 1:
        return "a run"
    keys = f": {tree.keys}" if tree is not None and tree.keys else ""
    return f"{plural(count, 'partition')}{keys}"


class _Parts:
    """The parts of a condition as findings, up to a readable number."""

    def __init__(self, most: int) -> None:
        self._left = most

    def part(self, tree: Tree) -> Finding:
        self._left -= 1
        return Finding(
            what=What.CONDITION_PART,
            status=FindingStatus.DONE if tree.true else FindingStatus.NOTE,
            subject=tree.asset,
            text=f"{named(tree)}: {truth(tree)}",
            because=self._below(tree),
        )

    def _below(self, tree: Tree) -> tuple[Finding, ...]:
        found: list[Finding] = []
        for part in tree.children:
            if self._left <= 0:
                break
            found.append(self.part(part))
        more = tree.more + len(tree.children) - len(found)
        if more:
            text = f"and {plural(more, 'more part')}"
            found.append(Finding(what=What.MORE, status=FindingStatus.NOTE, subject="", text=text))
        return tuple(found)


def told_once(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, with the parts of an evaluation only at its first mention."""
    return list(_told_once(findings, set()))


def _told_once(
    findings: Iterable[Finding], known: set[tuple[str, int | None]]
) -> Iterator[Finding]:
    for found in findings:
        name = (found.subject, found.seq)
        if found.what is What.EVALUATION and name in known:
            yield replace(found, text=f"{found.text}, as shown above", because=())
            continue
        if found.what is What.EVALUATION:
            known.add(name)
        yield replace(found, because=tuple(_told_once(found.because, known)))


def evaluations(
    rows: Sequence[AutomationEvaluationRow], *, whole: bool = False
) -> tuple[Finding, ...]:
    """What an evaluation requested for a few assets, with reasons; and how many more there are."""
    asking = [row for row in rows if row.requested_count]
    found = [evaluation(row, whole=whole) for row in asking[:MOST_ASSETS]]
    left = len(asking) - len(found)
    if left:
        text = f"and {plural(left, 'more asset')}"
        found.append(Finding(what=What.MORE, status=FindingStatus.NOTE, subject="", text=text))
    return tuple(found)
