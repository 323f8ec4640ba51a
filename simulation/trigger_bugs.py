"""Bugs in triggers: schedules, sensors, conditions, freshness."""
# ruff: noqa: SLF001 - what is private is exactly what is broken here
# pyright: reportPrivateUsage=false

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from servo.code.conditions.facts import Latest
from servo.code.conditions.news import News
from servo.code.evaluator.history import HistoryCursor
from servo.code.evaluator.messages import EvaluateTicks
from servo.controllers import freshness
from servo.core.actors import Origin
from servo.core.events.automation import AutomationEvaluated
from servo.core.events.schedules import ScheduleTicked
from servo.core.events.sensors import PushTrigger
from servo.core.fold import apply, automation, runs, schedules, sensors
from servo.core.fold.context import Rejected
from servo.core.state.state import State
from servo.core.state.states import ScheduleStatus
from servo.triggers import schedules as schedule_host
from servo.triggers.host import TriggerContext
from servo.triggers.schedules import Schedules, ticked
from simulation.planting import Bug, swap

WORLD = "triggers"

# --- schedules ------------------------------------------------------------------------------------


def _tick_then_runs(self: Schedules, evaluated: Any) -> set[str]:
    """A tick is committed, and then its runs, unless a crash comes in between."""
    for tick, answer in evaluated:
        head, *rest = ticked(tick, answer)
        origin = Origin(actor="schedule:planted")
        _ = self._context.commit("tick", (head,), origin)
        if rest:
            _ = self._context.commit("runs", rest, origin)
    return set()


def _all_at_once(self: Schedules, seen: Any, now: Any) -> None:
    """The ticks of a schedule are on their way at the same time, and may overtake each other."""
    ticks = [tick for one in seen for tick in self._pass_over(one, now)]
    asked = EvaluateTicks(ticks=tuple(tick.question for tick in ticks))
    answers = self._context.evaluators.ask(asked, 60).answers
    _ = self._commit(list(zip(ticks, answers, strict=True)))


def _begins_alike(known: Any, event: Any) -> bool:
    del known, event
    return True


def _due_whenever(state: State, row: Any, first: Any, last: Any) -> None:
    """A tick is due because its sender says so."""
    del state, last
    if first <= row.low_water:
        raise Rejected("tick_passed")


def _tick_asleep(state: State, event: Any, ctx: Any) -> None:
    """A tick counts also of a schedule that is paused, and leaves it so."""
    row = state.schedule_state.rows.get(event.schedule_id)
    if row is None or row.status is not ScheduleStatus.PAUSED:
        _ticked(state, event, ctx)
        return
    state.schedule_state.put(row.schedule_id, replace(row, status=ScheduleStatus.ACTIVE))
    _ticked(state, event, ctx)
    moved = state.schedule_state.rows[row.schedule_id]
    state.schedule_state.put(row.schedule_id, replace(moved, status=ScheduleStatus.PAUSED))


_ticked = schedules.RULES[ScheduleTicked]


def _nothing_missed(definition: Any, row: Any, now: Any) -> Any:
    return replace(_due(definition, row, now), skipped=None)


_due = schedule_host.due

# --- sensors --------------------------------------------------------------------------------------


def _cursor_then_runs(self: TriggerContext, name: str, events: Any, origin: Origin) -> Any:
    """An evaluation moves the cursor, and then its runs are asked for."""
    if name != "look":
        return _send(self, name, events, origin)
    head, *rest = events
    sent = _send(self, name, [head], origin)
    return _send(self, name, rest, origin) if rest and sent.applied else sent


_send = TriggerContext.send


def _any_version(event: Any, row: Any, ctx: Any) -> None:
    del event, row, ctx


def _known_by_evaluation(event: Any) -> tuple[str, ...]:
    """A message is known by the evaluation that answered it, and not by its id."""
    if isinstance(event.trigger, PushTrigger):
        return (f"push:{event.eval_id}",)
    return _dedup_keys(event)


_dedup_keys = sensors._dedup_keys


def _not_told(state: State, event: Any, known: Any, ctx: Any) -> None:
    del state, event, known, ctx


def _without_names(self: HistoryCursor) -> str:
    """A sensor of runs remembers how far it has come, and not what it is done with beyond."""
    return str(self.seq)


# --- conditions and freshness ---------------------------------------------------------------------


def _any_evaluation(state: State, event: Any, row: Any) -> None:
    del state, event, row


def _evaluated_again(state: State, event: Any, ctx: Any) -> None:
    try:
        _evaluated(state, event, ctx)
    except Rejected:
        return


_evaluated = automation.RULES[AutomationEvaluated]


def _first_of_run(self: News, key: str, bits: int, found: Latest) -> None:
    """Of what a run has made only one thing is news."""
    told: set[str] = self.__dict__.setdefault("_told_of", set())
    if found.run_id not in told:
        told.add(found.run_id)
        _make(self, key, bits, found)


_make = News._make


def _no_hint(index: Any, key: str, due: Any) -> None:
    del index, key, due


BUGS: Mapping[str, Bug] = MappingProxyType(
    {
        "tick_then_runs": Bug(
            what="a tick is committed first, and its runs in a separate batch",
            plant=swap((Schedules, "_commit", _tick_then_runs)),
            seed=0,
            world=WORLD,
        ),
        "ticks_at_once": Bug(
            what="the ticks of a schedule are sent concurrently, and may arrive out of order",
            plant=swap((Schedules, "_tick", _all_at_once)),
            seed=16,
            world=WORLD,
        ),
        "stretches_that_begin_alike": Bug(
            what="a range of missed ticks is mistaken for a shorter range with the same start",
            plant=swap((schedules, "_is_same", _begins_alike)),
            seed=80,
            world=WORLD,
        ),
        "tick_by_another_clock": Bug(
            what="a tick is due by the sender's clock",
            plant=swap((schedules, "_check_due", _due_whenever)),
            seed=1,
            world=WORLD,
        ),
        "ticks_while_paused": Bug(
            what="a tick counts although its schedule was paused in the meantime",
            plant=swap((apply, "RULES", {**apply.RULES, ScheduleTicked: _tick_asleep})),
            seed=91,
            world=WORLD,
        ),
        "missed_in_silence": Bug(
            what="missed ticks that are not caught up are not recorded",
            plant=swap((schedule_host, "due", _nothing_missed)),
            seed=1,
            world=WORLD,
        ),
        "cursor_then_runs": Bug(
            what="a cursor moves before the runs it implies are durable",
            plant=swap((TriggerContext, "send", _cursor_then_runs)),
            seed=0,
            world=WORLD,
        ),
        "stale_evaluation_counts": Bug(
            what="an evaluation of outdated state is accepted",
            plant=swap((sensors, "_check_version", _any_version)),
            seed=1,
            world=WORLD,
        ),
        "message_known_by_evaluation": Bug(
            what="a message that is sent again is evaluated again",
            plant=swap((sensors, "_dedup_keys", _known_by_evaluation)),
            seed=2,
            world=WORLD,
        ),
        "place_without_names": Bug(
            what="a run sensor that fails forgets which runs it has already received",
            plant=swap((HistoryCursor, "text", _without_names)),
            seed=30,
            world=WORLD,
        ),
        "conflict_not_told": Bug(
            what="a conflicting request under an existing run key is not recorded",
            plant=swap((runs, "_conflict", _not_told)),
            seed=1,
            world=WORLD,
        ),
        "two_evaluations_count": Bug(
            what="if two hosts evaluate the same conditions, both evaluations are accepted",
            plant=swap(
                (automation, "_check_next", _any_evaluation),
                (apply, "RULES", {**apply.RULES, AutomationEvaluated: _evaluated_again}),
            ),
            seed=0,
            world=WORLD,
        ),
        "news_lost": Bug(
            what="an incremental evaluation of conditions sees only one asset of each run",
            plant=swap((News, "_make", _first_of_run)),
            seed=0,
            world=WORLD,
        ),
        "never_too_old": Bug(
            what="an asset is not evaluated again when it becomes too old",
            plant=swap((freshness, "_expect", _no_hint)),
            seed=0,
            world=WORLD,
        ),
    }
)
