"""The whole system on a virtual clock, under faults, from a seed.

What runs here is the code that runs in production: the leader, its controllers, the publisher,
the readers. What is simulated is the world: the store, the queue, the network, the clocks, and
when processes die. One seed is one world; the same seed is the same world to the last byte.
"""
