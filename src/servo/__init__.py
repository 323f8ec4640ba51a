"""Servo: a data orchestrator whose only database is a bucket."""

__version__ = "0.1.0"
