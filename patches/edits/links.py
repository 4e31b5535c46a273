"""Links of the pages to tasks: each leads to one, whatever its id."""

from edits.edit import Edit

_TASK = "pyspider/webui/task.py"
_RESULT = "pyspider/webui/result.py"
_TEMPLATES = "pyspider/webui/templates"

_ANY_ID = "an id is whatever a script's get_taskid returns, such as a URL"
_CALLS = "calls of a script, such as ticks, are listed as tasks, and have no row"
_DROPPED = "a result outlives its task, which restarting a project drops"

_HAS_ROW = "task.taskid not in ('_on_cronjob', '_on_get_info')"

EDITS = (
    *(
        Edit(
            _TASK,
            f"@app.route('/task/<taskid>{end}')",
            f"@app.route('/task/<path:taskid>{end}', merge_slashes=False)",
            _ANY_ID,
        )
        for end in ("", ".json")
    ),
    Edit(f"{_TEMPLATES}/task.html", "={{ task.taskid }}", "={{ task.taskid|urlencode }}", _ANY_ID),
    Edit(
        f"{_TEMPLATES}/tasks.html",
        "?taskid={{ task.taskid }}",
        f"{{% if {_HAS_ROW} %}}?taskid={{{{ task.taskid|urlencode }}}}{{% endif %}}",
        _CALLS,
    ),
    Edit(
        f"{_TEMPLATES}/tasks.html",
        ' href="/task/{{ task.project }}:{{ task.taskid }}"',
        f"{{% if {_HAS_ROW} %}}"
        ' href="/task/{{ task.project }}:{{ task.taskid|urlencode }}"{% endif %}',
        _CALLS,
    ),
    Edit(
        _RESULT,
        "limit=limit))\n",
        "limit=limit))\n"
        "    get_task = app.config['taskdb'].get_task\n"
        "    tasks = [each['taskid'] for each in results\n"
        "             if get_task(project, each['taskid'], fields=['taskid'])]\n",
        _DROPPED,
    ),
    Edit(_RESULT, "results=results,\n", "results=results, tasks=tasks,\n", _DROPPED),
    Edit(
        f"{_TEMPLATES}/result.html",
        ' href="/task/{{ project }}:{{ result.taskid }}"',
        "{% if result.taskid in tasks %}"
        ' href="/task/{{ project }}:{{ result.taskid|urlencode }}"{% endif %}',
        _DROPPED,
    ),
)
