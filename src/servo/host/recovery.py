"""What pools of this machine were running when they died, given back so that it runs again."""

from servo.core.events.envelope import Batch
from servo.leader.protocols import LeaderWithState
from servo.workers.endings import interrupted
from servo.workspace.registry import forget, is_dead, registry_folder

LIMIT_SECONDS = 30.0


def give_back(service: LeaderWithState, actor: str) -> None:
    """Report what dead pools left. Called before anything is handed out.

    A pool elsewhere is left to its lease.
    """
    state, folder = service.state, registry_folder()
    rows = [state.tasks.rows[key] for key in list(state.index.running)]
    dead = {name for name in {row.worker_id for row in rows} if name and is_dead(folder, name)}
    told = [interrupted(row) for row in rows if row.worker_id in dead]
    batches = [Batch(id=f"done-{end.exec_id}", events=(end,), actor=actor) for end in told]
    for answer in [service.submit(batch) for batch in batches]:
        _ = answer.result(LIMIT_SECONDS)
    for name in dead:
        forget(folder, name)
