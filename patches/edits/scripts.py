"""Scripts: what of a handler is called at which time, and what leaves it."""

from edits.edit import Edit, Span

_FILE = "pyspider/libs/base_handler.py"
_EVERY = "the common divisor of floats is near 0, so that nothing ever ran; inherited methods too"

EDITS = (
    Edit(
        _FILE,
        "from pyspider.libs.utils import md5string, timeout\n",
        "from pyspider.libs import intervals\nfrom pyspider.libs.utils import md5string, timeout\n",
        _EVERY,
    ),
    Edit(
        _FILE,
        "        func.tick = minutes * 60 + seconds\n",
        "        func.tick = intervals.checked(func, minutes * 60 + seconds)\n",
        _EVERY,
    ),
    Span(
        _FILE,
        "        # A list of all functions which is marked as 'is_cronjob=True'\n"
        "        cron_jobs = []\n",
        "        return newcls\n",
        "        newcls = type.__new__(cls, name, bases, attrs)\n"
        "        newcls._cron_jobs = intervals.cron_jobs(newcls)\n"
        "        newcls._min_tick = intervals.min_tick(newcls._cron_jobs)\n",
        _EVERY,
    ),
    Edit(
        _FILE,
        "            if response.save['tick'] % cronjob.tick != 0:\n",
        "            if not intervals.is_due(cronjob.tick, response.save['tick']):\n",
        _EVERY,
    ),
)
