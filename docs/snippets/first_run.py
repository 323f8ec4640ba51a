"""A run of two tasks in the folder `.servo`; this script plays the worker."""

from servo.core.events.dispatch import DispatchRequested, Handover
from servo.core.events.envelope import Answer, Batch, Event
from servo.core.events.runs import PlanCreated, RunRequested
from servo.core.events.tasks import CommittedOutput, TaskFinished, TaskOutcome
from servo.core.ids import RunKey, TaskKeyStr, TenantId, WorkspaceId, run_id
from servo.core.plan import TaskSpec, fingerprint, normalize
from servo.leader.service import Service
from servo.testing.leader import open_service

TENANT, WORKSPACE = TenantId("default"), WorkspaceId("default")
RAW = TaskKeyStr("raw/orders:materialize")
REPORT = TaskKeyStr("marts/report:materialize")


def tell(service: Service, name: str, *events: Event) -> Answer:
    return service.commit(Batch(id=name, events=events, actor="user:tutorial"))


def work(service: Service, run: str, task: TaskKeyStr) -> None:
    """Take the first attempt at a task and report a success."""
    execution = f"exec-{task}"
    take = DispatchRequested(
        run_id=run, task_key=task, attempt=1, handover=Handover(exec_id=execution)
    )
    granted = tell(service, f"take-{task}", take)
    done = TaskFinished(
        run_id=run,
        task_key=task,
        attempt_id=str(granted.data["attempt_id"]),
        exec_id=execution,
        outcome=TaskOutcome.SUCCEEDED,
        output=CommittedOutput(materialization_id=execution, row_count=42),
    )
    print(task, tell(service, f"done-{task}", done).data["task_state"])


plan = normalize(
    [
        TaskSpec(task_key=RAW, asset_key="raw/orders"),
        TaskSpec(task_key=REPORT, asset_key="marts/report", upstream=(RAW,)),
    ]
)
with open_service(".servo") as service:
    salt = bytes.fromhex(service.engine.maintenance.manifest.identity)
    run = run_id(salt, TENANT, WORKSPACE, RunKey("tutorial"))
    request = RunRequested(run_id=run, run_key="tutorial", request_fingerprint="v1")
    planned = PlanCreated(
        run_id=run, fingerprint=fingerprint(TENANT, WORKSPACE, plan), tasks=plan.tasks
    )
    print(tell(service, "request", request, planned))
    for task in (RAW, REPORT):
        work(service, run, task)
