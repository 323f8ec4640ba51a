"""Declarative automation: conditions, what they look at, and their evaluation.

Whoever evaluates the conditions of a sensor in a workspace

1. makes a `Graph` of its assets and an `Evaluator` from the rows of `automation_state` and
   `automation_sensors`: what is remembered, and when the last evaluation was;
2. tells `evaluator.world` what was so at `applied_seq`, calls `begin`, and tells what came after;
3. calls `tick(now)`; `grouped` makes requests of what is asked for, and `events_of` the head of a
   batch, which the runs follow. A tick that is not `durable` needs no batch;
4. goes on with 2, telling only what changed, if the batch was accepted; begins with 1 if it was
   refused or nobody knows.
"""
