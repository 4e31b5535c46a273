"""Links of the pages to tasks: each leads to one, whatever its id."""

from edits.edit import Edit

_TASK = "pyspider/webui/task.py"
_RESULT = "pyspider/webui/result.py"
_TEMPLATES = "pyspider/webui/templates"

_ANY_ID = "an id is whatever a script's get_taskid returns, such as a URL"
_DROPPED = "a result outlives its task, which restarting a project drops"

EDITS = (
    Edit(
        _TASK,
        "@app.route('/task/<taskid>.json')",
        "@app.route('/task/<path:taskid>.json', merge_slashes=False)",
        _ANY_ID,
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
