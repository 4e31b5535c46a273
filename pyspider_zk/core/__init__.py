"""The rules of the cluster: pure functions and values.

Nothing here does I/O, reads a clock, draws a random number, starts a thread or logs; time is
an argument. That is what lets the tests explore these very functions exhaustively.
"""
