"""Declarative automation: conditions, the facts they depend on, and their evaluation.

To evaluate the conditions of a sensor in a workspace:

1. Build a `Graph` of its assets, and an `Evaluator` from the rows of `automation_state` and
  `automation_sensors`: the stored states and the time of the last evaluation.
2. Report the facts as of `applied_seq` to `evaluator.world`, call `begin`, and report what happened
  since.
3. Call `tick(now)`. `Recording` turns the result into the first events of a batch, which the run
  requests follow. A tick that is not `durable` needs no batch.
4. If the batch was accepted, continue with 2 and report only changes. If it was rejected, or the
  outcome is unknown, start again with 1.
"""
