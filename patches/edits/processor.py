"""Scripts as modules, since `imp` is gone; who watches over them; and what they made, as text."""

from edits.edit import Edit, Span

_FILE = "pyspider/processor/project_module.py"
_FOLLOWED = "an imported project was never seen to change: who watches needs to know what was found"

_HANDLER = "pyspider/libs/base_handler.py"

_UTILS = "pyspider/libs/utils.py"
_LINKS = "a tenth of a page's time went into looking at each part of each link"

EDITS = (
    Edit(
        _UTILS,
        "    if isinstance(obj, dict):\n        return unicode_dict(obj)\n",
        "    if type(obj) is str or type(obj) is int:\n"
        "        return obj\n"
        "    if isinstance(obj, dict):\n        return unicode_dict(obj)\n",
        _LINKS,
    ),
    Edit(
        _UTILS,
        "    r = {}\n"
        "    for k, v in iteritems(_dict):\n"
        "        r[unicode_obj(k)] = unicode_obj(v)\n"
        "    return r\n",
        "    return {unicode_obj(k): unicode_obj(v) for k, v in _dict.items()}\n",
        _LINKS,
    ),
    Edit(
        _HANDLER,
        "        if process_time_limit > 0:\n",
        "        self.__env__.get('limited', bool)(process_time_limit)\n"
        "        if process_time_limit > 0:\n",
        "who else can end the process needs to know when a step began, and its limit",
    ),
    Edit(
        "pyspider/processor/processor.py",
        "                        'exception': ret.exception,\n",
        "                        'exception': ret.exception,\n"
        "                        'callback': task.get('process', {}).get('callback'),\n",
        "failures are grouped by it, and no row is to be read for that",
    ),
    Edit(_FILE, "import imp\nimport time\n", "import time\nimport types\n", "imp is gone"),
    Edit(
        _FILE,
        "import linecache\n",
        "import linecache\nimport importlib.abc\nimport importlib.util\n",
        "both are used below, whatever else was imported before",
    ),
    Span(
        _FILE,
        "    def load_module(self, fullname):\n        if self.mod is None:\n",
        "    def is_package(self, fullname):\n        return False\n",
        "    def load_module(self, fullname):\n"
        "        if self.mod is None:\n"
        "            self.mod = types.ModuleType(fullname)\n"
        "        self.exec_module(self.mod)\n"
        "        return self.mod\n"
        "\n"
        "    def create_module(self, spec):\n"
        "        return None  # an ordinary module\n"
        "\n"
        "    def exec_module(self, mod):\n"
        "        mod.__file__ = '<%s>' % self.name\n"
        "        mod.__loader__ = self\n"
        "        mod.__project__ = self.project\n"
        "        mod.__package__ = mod.__name__.rpartition('.')[0]\n"
        "        source = utils.text(self.get_source(mod.__name__))\n"
        "        # linecache asks no loader for a name in angle brackets\n"
        "        linecache.cache[mod.__file__] = (\n"
        "            len(source), None, source.splitlines(True), mod.__file__)\n"
        "        six.exec_(self.get_code(mod.__name__), mod.__dict__)\n"
        "\n",
        "imp and load_module are gone; tracebacks show the lines of scripts again",
    ),
    Span(
        _FILE,
        "    def get_code(self, fullname):\n"
        "        return compile(self.get_source(fullname), '<%s>' % self.name, 'exec')\n",
        "if six.PY2:\n",
        "    def get_code(self, fullname):\n"
        "        source = utils.utf8(self.get_source(fullname))\n"
        "        return compile(source, '<%s>' % self.name, 'exec')\n"
        "\n"
        "    def get_source(self, fullname):\n"
        "        return utils.text(self.project['script'])\n"
        "\n\n",
        "a loader's get_source returns str; compile keeps bytes, for a byte order mark",
    ),
    Span(
        _FILE,
        "if six.PY2:\n",
        "    class ProjectFinder(importlib.abc.MetaPathFinder):\n",
        "if True:\n",
        "Python 2's finder went through imp",
    ),
    Edit(
        _FILE,
        "            loader = self.find_module(fullname, path)\n",
        "            loader = self.find_loader(fullname)\n",
        "find_module is gone since Python 3.12",
    ),
    Edit(
        _FILE,
        "        def find_module(self, fullname, path):\n",
        "        def find_loader(self, fullname):\n",
        "find_module is gone since Python 3.12",
    ),
    Span(
        _FILE,
        "    class ProjectsLoader(importlib.abc.InspectLoader):\n",
        "        def is_package(self, fullname):\n",
        "    class ProjectsLoader(importlib.abc.InspectLoader):\n"
        "        def create_module(self, spec):\n"
        "            return None  # an ordinary module\n"
        "\n"
        "        def exec_module(self, mod):\n"
        "            mod.__file__ = '<projects>'\n"
        "            mod.__path__ = ['<projects>']\n"
        "\n",
        "imp, load_module and module_repr are gone",
    ),
    Span(
        _FILE,
        "    class ProjectLoader(ProjectLoader, importlib.abc.Loader):\n",
        "            return '<Module projects.%s>' % self.name",
        "    class ProjectLoader(ProjectLoader, importlib.abc.Loader):\n"
        "        def __repr__(self):\n",
        "load_module and module_repr are gone",
    ),
    Edit(
        _FILE,
        "                info = self.projectdb.get(name)\n",
        "                info = self.projectdb.get(name)\n"
        "                self.imported[name] = info and info['script']\n",
        _FOLLOWED,
    ),
    Edit(
        _FILE,
        "        def __init__(self, projectdb):\n            self.get_projectdb",
        "        imported = {}  # of this process, as sys.modules; None: there is no such project\n"
        "\n"
        "        def __init__(self, projectdb):\n            self.get_projectdb",
        _FOLLOWED,
    ),
    Edit(
        _FILE,
        'logger = logging.getLogger("processor")\n',
        'logger = logging.getLogger("processor")\n'
        "\n\n"
        "def forget_imported():\n"
        '    """Let the next import of each project find its script of now"""\n'
        "    ProjectFinder.imported.clear()\n"
        "    for name in [name for name in sys.modules if name.split('.')[0] == 'projects']:\n"
        "        sys.modules.pop(name, None)\n",
        _FOLLOWED,
    ),
)
