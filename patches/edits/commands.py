"""The command line: click 8 and the processes it starts."""

from edits.edit import Edit

_FILE = "pyspider/run.py"
_ASYNC = "async is a keyword since Python 3.7; upstream's later name is async_mode"
_NAMES = "click 7 turned the names' underscores into dashes: both work, config.json has the former"
_IMPORTS = "requests fails and six hangs if two threads import them at once"
_BEGIN = "before its first round a scheduler refuses what bench asks, and nothing was measured"
_SIGTERM = "SIGTERM ends a component as quit() does; children that hang are killed"
_FOLDER = "components that start at the same time find no folder, and only one of them can make it"

EDITS = (
    Edit(
        _FILE,
        "            if not os.path.exists(kwargs['data_path']):\n"
        "                os.mkdir(kwargs['data_path'])\n",
        "            make_folder(kwargs['data_path'])\n",
        _FOLDER,
    ),
    Edit(
        _FILE,
        "    if not os.path.exists(kwargs['data_path']):\n        os.mkdir(kwargs['data_path'])\n",
        "    make_folder(kwargs['data_path'])\n",
        _FOLDER,
    ),
    Edit(_FILE, " async=True, get_object", " async_mode=True, get_object", _ASYNC),
    Edit(_FILE, "proxy=proxy, async=async)", "proxy=proxy, async_mode=async_mode)", _ASYNC),
    Edit(_FILE, "fetcher, async=False,", "fetcher, async_mode=False,", _ASYNC),
    Edit(
        _FILE,
        "@click.group(invoke_without_command=True)\n",
        "class Commands(click.Group):\n"
        '    """Finds a command by its name with dashes, too."""\n'
        "\n"
        "    def get_command(self, ctx, cmd_name):\n"
        "        return super().get_command(ctx, cmd_name.replace('-', '_'))\n"
        "\n"
        "    def resolve_command(self, ctx, args):\n"
        "        _, command, rest = super().resolve_command(ctx, args)\n"
        "        return command and command.name, command, rest\n"
        "\n\n"
        "class Instances(list):\n"
        '    """Components; those that come after quit() are quit at once."""\n'
        "    ended = False\n"
        "\n"
        "    def append(self, each):\n"
        "        super().append(each)\n"
        "        if self.ended:\n"
        "            each.quit()\n"
        "\n"
        "    def quit(self):\n"
        "        self.ended = True\n"
        "        for each in list(self):\n"
        "            each.quit()\n"
        "\n\n"
        "def quit_on_sigterm(instances):\n"
        '    """Let SIGTERM quit the instances; it kills if there are none, or again."""\n'
        "    def handler(signum, frame):\n"
        "        signal.signal(signum, signal.SIG_DFL)\n"
        "        if not instances:\n"
        "            os.kill(os.getpid(), signum)\n"
        "        instances.quit()\n"
        "\n"
        "    if threading.current_thread() is threading.main_thread():\n"
        "        signal.signal(signal.SIGTERM, handler)\n"
        "\n\n"
        "def make_folder(path):\n"
        '    """Make a folder, unless there is one; other processes may make it meanwhile."""\n'
        "    if not os.path.exists(path):\n"
        "        try:\n"
        "            os.mkdir(path)\n"
        "        except FileExistsError:\n"
        "            pass\n"
        "\n\n"
        "def import_components():\n"
        '    """Import what threads will run, before there are any."""\n'
        "    for name in (\n"
        "        'scheduler', 'fetcher', 'processor', 'result', 'webui',\n"
        "        'libs.wsgi_server', 'libs.wsgi_xmlrpc',\n"
        "    ):\n"
        "        importlib.import_module('pyspider.' + name)\n"
        "\n\n"
        "@click.group(cls=Commands, invoke_without_command=True)\n",
        _NAMES,
    ),
    Edit(
        _FILE,
        "import shutil\nimport logging\n",
        "import shutil\nimport importlib\nimport signal\nimport threading\nimport logging\n",
        _SIGTERM,
    ),
    Edit(
        _FILE,
        "        run_in = utils.run_in_thread\n\n    threads = []\n\n    try:\n",
        "        import_components()\n"
        "        run_in = utils.run_in_thread\n\n    threads = []\n\n    try:\n",
        _IMPORTS,
    ),
    Edit(
        _FILE,
        "    ctx.obj['instances'] = []\n    ctx.obj.update(kwargs)\n",
        "    ctx.obj['instances'] = Instances()\n"
        "    ctx.obj.update(kwargs)\n"
        "    if not ctx.obj.get('testing_mode'):\n"
        "        quit_on_sigterm(ctx.obj['instances'])\n",
        _SIGTERM,
    ),
    Edit(
        _FILE,
        "                each.terminate()\n            each.join()\n",
        "                each.terminate()\n"
        "                each.join(5)\n"
        "                each.kill()\n"
        "            each.join()\n",
        _SIGTERM,
    ),
    Edit(
        _FILE,
        "        scheduler_obj.quit()\n        if phantomjs_obj:",
        "        scheduler_obj.quit()\n        fetcher_obj.close()\n        if phantomjs_obj:",
        "nobody else runs, and so frees, the fetcher's loop",
    ),
    Edit(
        _FILE,
        '        scheduler_rpc.newtask({\n            "project": project_name,\n',
        '        on_start = {\n            "project": project_name,\n',
        _BEGIN,
    ),
    Edit(
        _FILE,
        "        })\n\n        # wait bench test finished\n",
        "        }\n"
        "        for _ in range(100):\n"
        "            if scheduler_rpc.newtask(on_start):\n"
        "                break\n"
        "            time.sleep(0.1)\n"
        "\n        # wait bench test finished\n",
        _BEGIN,
    ),
    Edit(
        _FILE,
        "@click.option('--host', default='0.0.0.0', envvar='WEBUI_HOST',\n",
        "@click.option('--host', default='127.0.0.1', envvar='WEBUI_HOST',\n",
        "the editor runs Python for whoever reaches it; who wants others to says so",
    ),
    Edit(
        _FILE,
        "@cli.command()\n@click.option('--result-cls'",
        "@cli.command('result_worker')\n@click.option('--result-cls'",
        _NAMES,
    ),
    Edit(
        _FILE,
        "@cli.command()\n@click.option('--scheduler-rpc', callback=connect_rpc",
        "@cli.command('send_message')\n@click.option('--scheduler-rpc', callback=connect_rpc",
        _NAMES,
    ),
    Edit(
        _FILE,
        "                os.mkdir(kwargs['data_path'])\n            if db in",
        "                os.makedirs(kwargs['data_path'])\n            if db in",
        "./data/bench needs ./data",
    ),
    Edit(
        _FILE,
        "'--xmlrpc-host', default='0.0.0.0'",
        "'--xmlrpc-host', default='127.0.0.1', show_default=True",
        "anybody who reaches XML-RPC may do everything: opening it must be explicit",
        count=2,
    ),
)
