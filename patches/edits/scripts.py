"""Scripts: what of a handler is called at which time, and what leaves it."""

from edits.edit import Edit, Span

_FILE = "pyspider/libs/base_handler.py"
_EVERY = "the common divisor of floats is near 0, so that nothing ever ran; inherited methods too"
_STORED = "what JSON does not know was lost while its task succeeded, or stored as a repr"

EDITS = (
    Edit(
        _FILE,
        "from pyspider.libs.utils import md5string, timeout\n",
        "from pyspider.libs import intervals, storable\n"
        "from pyspider.libs.utils import md5string, timeout\n",
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
    Edit(
        _FILE,
        '        assert self.task, "on_result can\'t outside a callback."\n',
        '        assert self.task, "on_result can\'t outside a callback."\n'
        "        result = storable.stored('result', result)\n",
        _STORED,
    ),
    Edit(
        _FILE,
        "                self._run_func(self.on_result, result, response, task)\n",
        "                self._run_func(self.on_result, result, response, task)\n"
        "            self.save = storable.stored('self.save', self.save)\n",
        _STORED,
    ),
    Edit(
        _FILE,
        "            logger.exception(e)\n            exception = e\n",
        "            logger.exception(e)\n"
        "            exception = e\n"
        "            self.save = storable.stored_part(self.save)\n",
        _STORED,
    ),
    Edit(
        _FILE,
        "        if self.is_debugger():\n            task = self.task_join",
        "        task = storable.stored_task(task)\n"
        "        if self.is_debugger():\n            task = self.task_join",
        _STORED,
    ),
    Edit(
        _FILE,
        "        return ProcessorResult(result, follows,",
        "        if result is not None:\n"
        "            result = storable.stored_or(result, str(result))\n"
        "        return ProcessorResult(result, follows,",
        _STORED,
    ),
)
