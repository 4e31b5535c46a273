"""The pages: they load everything from the web UI itself, so they work without the internet."""

from edits.edit import Edit, Span

_APP = "pyspider/webui/app.py"
_RUN = "pyspider/run.py"
_OFFLINE = "the libraries are installed with the web UI; a CDN is asked only if one is named"

_EDITOR = "pyspider/webui/templates/debug.html"
_INDEX = "pyspider/webui/templates/index.html"
_DASHBOARD = "pyspider/webui/static/index.min.js"
_FORM = "x-editable is no longer maintained; a small form of our own replaces it"
_SORTING = "HubSpot's Sortable is in no package; a small script of our own sorts the tables"
_DATA = "code within a page is forbidden by its content security policy; data is not"
_LOADED = """    <script src="{{ url_for('static', filename='page_data.js') }}"></script>\n"""
_CLUSTER = "a web UI of a cluster has `cluster` in its config; any other shows what it always did"

# library, version that the templates ask for, ours, how often which template asks
_RAISED = (
    ("jquery", "1.11.0", "3.7.1", dict.fromkeys(("debug", "index", "result", "task", "tasks"), 1)),
    ("twitter-bootstrap", "3.1.1", "3.4.1", dict.fromkeys(("index", "result", "task", "tasks"), 2)),
    ("codemirror", "5.20.2", "5.65.20", {"debug": 16}),
)

EDITS: tuple[Edit | Span, ...] = (
    Edit(
        _APP,
        "        cdn = app.config.get('cdn', '//cdnjscn.b0.upaiyun.com/libs/')\n",
        "        cdn = app.config.get('cdn')\n"
        "        if not cdn:\n"
        "            return app.url_for('static', filename='cdn/' + path)\n",
        _OFFLINE,
    ),
    Edit(
        _RUN,
        "@click.option('--cdn', default='//cdnjs.cloudflare.com/ajax/libs/',\n"
        "              help='js/css cdn server')\n",
        "@click.option('--cdn', help='URL of a js/css cdn server'\n"
        "              ' [default: the web ui serves its own files]')\n",
        _OFFLINE,
    ),
    Edit(
        _RUN,
        "    app.config['cdn'] = cdn\n",
        "    app.config['cdn'] = cdn\n"
        "    if cdn:\n"
        "        logging.getLogger('webui').info('pages load js and css from %s', cdn)\n",
        "operators must see that browsers load code from elsewhere",
    ),
    *(
        Span(
            f"pyspider/webui/templates/{name}.html",
            "    <!--[if lt IE 9]>\n",
            '    <meta name="description"',
            '    <link rel="icon" href="data:,">\n',
            "no script for Internet Explorer 8 from a server that is gone, and no 404 for an icon",
        )
        for name in ("debug", "index", "result", "task", "tasks")
    ),
    Edit(
        _INDEX,
        "Recent Active Tasks</a>\n          {% endif %}\n",
        "Recent Active Tasks</a>\n          {% endif %}\n"
        "          {% if config.cluster %}\n"
        '            <a class="btn btn-default btn-info" href="{{ config.cluster.url }}">'
        "Cluster</a>\n"
        "          {% endif %}\n",
        _CLUSTER,
    ),
    Edit(
        _INDEX,
        "            <th>status</th>\n",
        '            {% if config.cluster %}<th data-type="num">owner</th>{% endif %}\n'
        "            <th>status</th>\n",
        _CLUSTER,
    ),
    Edit(
        _INDEX,
        '            <td class="project-status">\n',
        "            {% endraw %}\n"
        "            # if config.cluster:\n"
        "            {% raw %}\n"
        '            <td class="project-owner" data-value="{{* project.owner }}">'
        "{{* project.owner === null ? 'none' : project.owner }}</td>\n"
        "            {% endraw %}\n"
        "            # endif\n"
        "            {% raw %}\n"
        '            <td class="project-status">\n',
        _CLUSTER,
    ),
    Edit(
        _INDEX,
        "index.min.js') }}\"></script>\n",
        "index.min.js') }}\"></script>\n"
        "    {% if config.cluster %}\n"
        '    <link rel="stylesheet" href="{{ config.cluster.url }}static/dashboard.css">\n'
        '    <script type="module" src="{{ config.cluster.url }}static/dashboard.js"></script>\n'
        "    {% endif %}\n",
        _CLUSTER,
    ),
    Span(
        _INDEX,
        "    <script>\n      // json projects data for vue\n",
        "    <script src=\"{{ url_for('cdn', path='twitter-bootstrap",
        '    <script type="application/json" data-name="projects">\n'
        "      {{- (config.cluster.with_owners(projects) if config.cluster else projects)"
        " | tojson -}}\n"
        "    </script>\n" + _LOADED,
        f"{_DATA}; {_CLUSTER}",
    ),
    Span(
        _EDITOR,
        "    <script>\n      var task_content",
        "    <script src=\"{{ url_for('static', filename='debug.min.js') }}\"",
        '    <script type="application/json" data-name="task_content">'
        "{{ task | tojson | tojson | safe }}</script>\n"
        '    <script type="application/json" data-name="script_content">'
        "{{ script | tojson | safe }}</script>\n" + _LOADED,
        _DATA,
    ),
    Edit(
        _EDITOR,
        '<a href="javascript:;" id=',
        '<a role="button" tabindex="0" id=',
        "a link to javascript: is code within the page",
        count=2,
    ),
    Edit(
        _EDITOR,
        "    <script src=\"{{ url_for('cdn', path='URI.js/1.11.2/URI.min.js') }}\"></script>\n",
        "",
        "no script uses it",
    ),
    Span(
        _DASHBOARD,
        'function t(t){$(".project-group>span").editable(',
        "function e(){Sortable",
        "function t(t){editCells(t.projects)}",
        _FORM,
    ),
    Edit(
        _INDEX,
        "    <link href=\"{{ url_for('cdn', path='x-editable/1.5.0/bootstrap3-editable/css/"
        'bootstrap-editable.css\') }}" rel="stylesheet">\n',
        "",
        _FORM,
    ),
    Edit(
        _INDEX,
        "{{ url_for('cdn', path='x-editable/1.5.0/bootstrap3-editable/js/"
        "bootstrap-editable.min.js') }}",
        "{{ url_for('static', filename='edit_cells.js') }}",
        _FORM,
    ),
    Edit(
        _INDEX,
        '<span class="status-{{ project.paused',
        '<span tabindex="0" role="button" class="status-{{ project.paused',
        _FORM,
    ),
    Edit(
        _INDEX,
        "<span>{{ project.rate }}/",
        '<span tabindex="0" role="button">{{ project.rate }}/',
        _FORM,
    ),
    Edit(
        _INDEX,
        "<span>{{ project.group }}</span>",
        '<span tabindex="0" role="button"'
        " :class=\"{'cell-is-empty': !project.group}\">{{ project.group || '[group]' }}</span>",
        _FORM,
    ),
    *(
        Edit(
            _INDEX,
            f"{{{{ url_for('cdn', path='sortable/0.6.0/{theirs}') }}}}",
            f"{{{{ url_for('static', filename='sort_tables.{kind}') }}}}",
            _SORTING,
        )
        for kind, theirs in (
            ("css", "css/sortable-theme-bootstrap.css"),
            ("js", "js/sortable.min.js"),
        )
    ),
    *(
        Edit(
            f"pyspider/webui/templates/{template}.html",
            f"path='{library}/{old}/",
            f"path='{library}/{new}/",
            "a version that its authors maintain, or the last one that they maintained",
            count,
        )
        for library, old, new, templates in _RAISED
        for template, count in templates.items()
    ),
)
