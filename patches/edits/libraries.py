"""Libraries that only some databases and queues need."""

from edits.edit import Edit

EDITS = (
    Edit(
        "pyspider/database/redis/taskdb.py",
        "pipe.hmset(task_key, self._stringify(obj))",
        "pipe.hset(task_key, mapping=self._stringify(obj))",
        "redis-py 4 deprecated hmset",
    ),
    Edit(
        "pyspider/database/redis/taskdb.py",
        "pipe.hmset(self._gen_key(project, taskid), self._stringify(obj))",
        "pipe.hset(self._gen_key(project, taskid), mapping=self._stringify(obj))",
        "redis-py 4 deprecated hmset",
    ),
)
