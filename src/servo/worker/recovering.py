"""What pools of this machine were running when they died, given back so that it runs again."""

from servo.core.events.envelope import Batch
from servo.runtime.service import Service
from servo.worker.endings import lost
from servo.worker.registry import forget, is_dead, registry_folder


def give_back(service: Service, actor: str) -> None:
    """Report what dead pools left. Called before anything is handed out.

    A pool elsewhere is left to its lease.
    """
    state, folder = service.engine.state, registry_folder()
    rows = [state.tasks.rows[key] for key in list(state.index.running)]
    dead = {name for name in {row.worker_id for row in rows} if name and is_dead(folder, name)}
    for row in rows:
        if row.worker_id in dead:
            batch = Batch(id=f"done-{row.exec_id}", events=(lost(row),), actor=actor)
            _ = service.commit(batch)
    for name in dead:
        forget(folder, name)
