"""Intervals of @every: which methods have one, and at which seconds they are due.

Added by pyspider-zk: pyspider looked at the class's own methods alone, and at multiples of the
common divisor of floats, which most floats do not have.
"""

import inspect
import math


def checked(function, seconds):
    """Return the interval of a method in seconds; raise ValueError if it cannot be kept."""
    if not 1 <= seconds < math.inf:
        raise ValueError(
            f"@every of {function.__name__}: the interval is {seconds:g} seconds; scripts are"
            " called once a second at most, so choose one from 1 second up"
        )
    return round(seconds, 3)


def cron_jobs(cls):
    """Return the methods of a class with an interval, with those that it inherits."""
    methods = {}
    for each in reversed(cls.__mro__):
        methods.update(vars(each))
    return [
        each
        for each in methods.values()
        if inspect.isfunction(each) and getattr(each, "is_cronjob", False)
    ]


def min_tick(jobs):
    """Return every how many seconds a script is to be called for its methods; 0 for none."""
    if all(each.tick == int(each.tick) for each in jobs):
        return math.gcd(*(int(each.tick) for each in jobs))
    return 1


def is_due(interval, second):
    """Return whether a multiple of the interval lies in the second that ends now."""
    return second // interval != (second - 1) // interval
