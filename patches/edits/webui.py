"""The web UI: Flask 3, Flask-Login 0.6, Werkzeug 3, Tornado 6."""

from edits.edit import Edit, Span

_APP = "pyspider/webui/app.py"
_IMPORTED = "the editor kept on running the first version of an imported project"
_DEBUG = "pyspider/webui/debug.py"
_LOGIN = "pyspider/webui/login.py"
_PROPERTY = "is_active and its like are properties: as a method, everybody would be logged in"
_ASYNC = "async is a keyword since Python 3.7; upstream's later name is async_mode"
_IDENTITY = (
    "any scheme was taken for Basic, and what was presented was logged; one module reads it now"
)
_EDITOR = (
    "the editor fitted no phone, overwrote what others saved, and offered viewers what is refused;"
    " the cluster's replaces it"
)
_APART = "what runs the script may be carried out in another process, which can be ended"
_HOME = "the dashboard froze the browser with hundreds of projects; the cluster's page replaces it"
_TASK = "pyspider/webui/task.py"
_RESULT = "pyspider/webui/result.py"
_ANY_ID = "an id is whatever a script's get_taskid returns, such as a URL"
_NARROW = (
    "the pages of tasks fit no window, nor said what a task waits for; the cluster's replace them"
)
_QUIT = "quit() has to end the serving thread and free the port, whoever calls it"

EDITS = (
    Edit(
        _DEBUG,
        "    fetch_result = {}\n"
        "    try:\n"
        "        module = ProjectManager.build_module(project_info, {\n",
        "    fetched = Future()\n"
        "    try:\n"
        "        fetched.set_result(app.config['fetch'](task))\n"
        "    except Exception as error:\n"
        "        fetched.set_exception(error)\n"
        "    run_apart = app.config.get('run_apart', lambda trial, *given: trial(*given))\n"
        "    text = run_apart(run_script, project_info, task, start_time, fetched)\n"
        "    return text, 200, {'Content-Type': 'application/json'}\n"
        "\n\n"
        "def run_script(project_info, task, start_time, fetched, limited=bool):\n"
        "    fetch_result = {}\n"
        "    try:\n"
        "        limited(app.config['process_time_limit'])\n"
        "        module = ProjectManager.build_module(project_info, {\n"
        "            'limited': limited,\n",
        _APART,
    ),
    Edit(
        _DEBUG,
        "        fetch_result = app.config['fetch'](task)\n",
        "        fetch_result = fetched.result()\n",
        _APART,
    ),
    Edit(
        _DEBUG,
        "(utils.unicode_obj(result)), 200, {'Content-Type': 'application/json'}\n",
        "(utils.unicode_obj(result))\n",
        _APART,
        count=2,
    ),
    Edit(
        _DEBUG,
        "import inspect\nimport datetime\nimport traceback\nfrom flask import render_template, ",
        "import traceback\nfrom concurrent.futures import Future\nfrom flask import ",
        _APART,
    ),
    Edit(_DEBUG, "import utils, sample_handler, dataurl", "import utils, dataurl", _EDITOR),
    Edit(
        _DEBUG,
        "from .app import app\n",
        "from .app import app\nfrom .cluster_pages import lead_to\n",
        _EDITOR,
    ),
    Span(
        _DEBUG,
        "default_task = {\n",
        "@app.before_first_request\n",
        "\n@app.route('/debug/<project>', methods=['GET', 'POST'])\n"
        "def debug(project):\n"
        "    given, names = request.values, {'taskid': 'taskid', 'start-urls': 'start'}\n"
        "    query = {new: given[old] for old, new in names.items() if old in given}\n"
        "    return lead_to('editor', project=project, **query)\n\n\n",
        _EDITOR,
    ),
    Edit(
        _APP,
        "import os\nimport sys\nimport logging\n",
        "import os\nimport sys\nimport logging\nimport threading\n"
        "\nfrom pyspider.webui.identity import identify\n",
        "the application has Events, and a door",
    ),
    Edit(
        _APP,
        '    """Add quit() method to Flask object"""\n',
        '    """Add quit() method to Flask object"""\n'
        "\n"
        "    def __init__(self, *args, **kwargs):\n"
        "        super(QuitableFlask, self).__init__(*args, **kwargs)\n"
        "        self.http_server = None\n"
        "        self.port = None\n"
        "        self.ready = threading.Event()\n"
        "        self.ended = threading.Event()\n"
        "\n"
        "    def door(self, environ, start_response):\n"
        "        if self.config.get('need_auth') and not identify(environ, self.config):\n"
        "            return self.login_response(environ, start_response)\n"
        "        start_response('204 No Content', [])\n"
        "        return []\n",
        "the bound port can be found out; who sends much is asked first",
    ),
    Span(
        _APP,
        "        import tornado.wsgi\n",
        "        if host is None:\n",
        "        from pyspider.libs.wsgi_server import WSGIServer\n\n",
        _QUIT,
    ),
    Span(
        _APP,
        "        use_debugger = self.debug\n",
        "        try:\n            from .webdav",
        "\n",
        "Werkzeug's debugger runs code for whoever reaches it, past every login",
    ),
    Edit(
        _APP,
        "from werkzeug.wsgi import DispatcherMiddleware",
        "from werkzeug.middleware.dispatcher import DispatcherMiddleware",
        "moved in Werkzeug 1",
    ),
    Span(
        _APP,
        "        container = tornado.wsgi.WSGIContainer(application)\n",
        "        self.logger.info('webui exiting...')\n",
        "        # A script on trial may take long: pages are served meanwhile.\n"
        "        self.http_server = WSGIServer(\n"
        "            application, port, hostname,\n"
        "            lambda path: path.startswith('/debug/') and path.endswith('/run'),\n"
        "            threads=self.config.get('threads', 8),\n"
        "            limits=self.config.get('http_limits'),\n"
        "            door=self.config.get('door', self.door))\n"
        "        if self.ended.is_set():\n"
        "            self.http_server.stop()\n"
        "        self.port = self.http_server.port\n"
        "        self.ready.set()\n"
        "        self.logger.info('webui running on %s:%s', hostname, self.port)\n"
        "        try:\n"
        "            if use_reloader:\n"
        "                from tornado import autoreload\n"
        "                self.http_server.run(autoreload.start)\n"
        "            else:\n"
        "                self.http_server.run()\n"
        "        finally:\n"
        "            self.ready.clear()\n"
        "            self.ended.clear()\n"
        "\n"
        "    def quit(self):\n"
        "        server = self.http_server\n"
        "        if server is None:  # not yet: run() looks once it has one\n"
        "            self.ended.set()\n"
        "            server = self.http_server\n"
        "        if server:\n"
        "            server.stop()\n",
        _QUIT,
    ),
    Edit(
        _APP,
        "app.config.update({\n"
        "    'fetch': lambda x: tornado_fetcher.Fetcher(None, None, async=False).fetch(x),\n",
        "\n\n"
        "def fetch(task):\n"
        "    fetcher = tornado_fetcher.Fetcher(None, None, async_mode=False)\n"
        "    try:\n"
        "        return fetcher.fetch(task)\n"
        "    finally:\n"
        "        fetcher.close()\n"
        "\n\n"
        "app.config.update({\n"
        "    'fetch': fetch,\n"
        "    'MAX_FORM_MEMORY_SIZE': None,  # as before Flask 3.1: scripts may be large\n",
        _ASYNC + "; a loop is not freed by itself",
    ),
    Edit(
        _DEBUG,
        "@app.before_first_request\n"
        "def enable_projects_import():\n"
        "    sys.meta_path.append(ProjectFinder(app.config['projectdb']))\n",
        "@app.before_request\n"
        "def enable_projects_import():\n"
        "    projectdb = app.config['projectdb']\n"
        "    finders = [each for each in sys.meta_path if isinstance(each, ProjectFinder)]\n"
        "    if projectdb and not any(each.projectdb is projectdb for each in finders):\n"
        "        sys.meta_path.append(ProjectFinder(projectdb))\n",
        "before_first_request is gone since Flask 2.3",
    ),
    Edit(
        _DEBUG,
        "        module = ProjectManager.build_module(project_info, {\n",
        "        forget_imported()\n        module = ProjectManager.build_module(project_info, {\n",
        _IMPORTED,
    ),
    Edit(
        _DEBUG,
        "import ProjectManager, ProjectFinder\n",
        "import ProjectManager, ProjectFinder, forget_imported\n",
        _IMPORTED,
    ),
    Edit(_DEBUG, "login.current_user.is_active()", "login.current_user.is_active", _PROPERTY),
    Edit(
        "pyspider/webui/index.py",
        "from flask import render_template, request, json\n",
        "from flask import request, json\n",
        _HOME,
    ),
    Span(
        "pyspider/webui/index.py",
        "index_fields = [",
        "@app.route('/queues')",
        "\n@app.route('/')\ndef index():\n    return lead_to('projects')\n\n\n",
        _HOME,
    ),
    Edit(
        "pyspider/webui/index.py",
        "from .app import app\n",
        "from .app import app\nfrom .cluster_pages import lead_to\n",
        _HOME,
    ),
    Span(
        _TASK,
        "from flask import abort, render_template, request, json\n",
        "@app.route('/task/<taskid>.json')",
        "from flask import abort, request, json\n"
        "\n"
        "from pyspider.libs import utils\n"
        "from .app import app\n"
        "from .cluster_pages import lead_to\n"
        "\n\n"
        "@app.route('/task/<path:taskid>', merge_slashes=False)\n"
        "def task(taskid):\n"
        "    if ':' not in taskid:\n"
        "        abort(400)\n"
        "    project, taskid = taskid.split(':', 1)\n"
        "    return lead_to('task', project=project, id=taskid)\n\n\n",
        _NARROW,
    ),
    Span(
        _TASK,
        "@app.route('/tasks')",
        "@app.route('/active_tasks')",
        "@app.route('/tasks')\n"
        "def tasks():\n"
        "    return lead_to('tasks', project=request.args.get('project', ''))\n\n\n",
        _NARROW,
    ),
    Edit(
        _TASK,
        "@app.route('/task/<taskid>.json')",
        "@app.route('/task/<path:taskid>.json', merge_slashes=False)",
        _ANY_ID,
    ),
    Edit(_TASK, "\napp.template_filter('format_date')(utils.format_date)", "", _NARROW),
    Edit(
        "pyspider/webui/index.py",
        "login.current_user.is_active()",
        "login.current_user.is_active",
        _PROPERTY,
        count=2,
    ),
    Span(
        _RESULT,
        "from flask import render_template, request, json\n",
        "@app.route('/results/dump/<project>.<_format>')",
        "from flask import request\n"
        "from flask import Response\n"
        "from .app import app\n"
        "from .cluster_pages import lead_to\n"
        "from pyspider.libs import result_dump\n"
        "\n\n"
        "@app.route('/results')\n"
        "def result():\n"
        "    return lead_to('results', project=request.args.get('project', ''))\n\n\n",
        _NARROW,
    ),
    Edit(
        _RESULT,
        "int(request.args.get('offset', 0)) or None",
        "int(request.args.get('offset', 0))",
        "a dump with a limit needs an offset, too",
    ),
    Edit(
        _RESULT,
        "    results = resultdb.select(project, offset=offset, limit=limit)\n",
        "    results = result_dump.exported(resultdb, project, offset, limit)\n",
        "a reader of all results kept the database's lock, a table or a connection while it lasted",
    ),
    Edit(
        _RESULT,
        "result_dump.dump_as_csv(results)",
        "result_dump.dump_as_csv(results, request.args.get('style') == 'spreadsheet')",
        "Excel shows a CSV without a byte order mark as Latin",
    ),
    Edit(
        _RESULT,
        "    resultdb = app.config['resultdb']\n    # force update project list\n",
        "    resultdb = app.config['resultdb']\n"
        "    if _format not in ('json', 'txt', 'csv'):\n"
        '        return "there are dumps as json, txt and csv.", 404\n'
        "    # force update project list\n",
        "a format that there is not ended in status 500",
    ),
    Edit(
        _RESULT,
        "    if project not in resultdb.projects:\n",
        "    projectdb = app.config['projectdb']\n"
        "    if project not in resultdb.projects and not projectdb.get(project, ['name']):\n",
        "a project without results was called none",
    ),
    Edit(_LOGIN, "import base64\n", "", _IDENTITY),
    Edit(
        _LOGIN,
        "from .app import app\n",
        "from .app import app\nfrom .identity import identify\n",
        _IDENTITY,
    ),
    Span(
        _LOGIN,
        "class User(login.UserMixin):\n",
        "login_manager.anonymous_user = AnonymousUser\n",
        "class User(login.UserMixin):\n"
        "    def __init__(self, identity):\n"
        "        self.id = identity.name\n"
        "\n\n",
        _IDENTITY,
    ),
    Span(
        _LOGIN,
        "    api_key = request.headers.get('Authorization')\n",
        "app.login_response = Response(\n",
        "    identity = identify(request.environ, app.config)\n"
        "    return User(identity) if identity else None\n"
        "\n\n",
        _IDENTITY,
    ),
    Edit(_LOGIN, "login.current_user.is_active()", "login.current_user.is_active", _PROPERTY),
    Edit(
        _LOGIN,
        "    def is_anonymous(self):\n",
        "    @property\n    def is_anonymous(self):\n",
        _PROPERTY,
    ),
    Edit(
        _LOGIN,
        "    def is_active(self):\n",
        "    @property\n    def is_active(self):\n",
        _PROPERTY,
    ),
    Edit(
        _LOGIN,
        "    def is_authenticated(self):\n",
        "    @property\n    def is_authenticated(self):\n",
        _PROPERTY,
    ),
)
