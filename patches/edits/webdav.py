"""WebDAV: wsgidav 3 and 4 renamed every method and option of a provider."""

from edits.edit import Edit, Span

_FILE = "pyspider/webui/webdav.py"
_NAMES = "the methods have other names since wsgidav 3"
_KEYWORD = "the argument has another name since wsgidav 3, and may only be given by it"

_IDENTITY = "what was presented was logged, and any scheme was taken for Basic"
_XML = "some XML of 1 MB took minutes and gigabytes, and a comment ended in status 500"

EDITS = (
    Edit(
        _FILE,
        "from wsgidav.wsgidav_app import DEFAULT_CONFIG, WsgiDAVApp\n",
        "from urllib.parse import urlsplit\n"
        "from wsgidav.dc.base_dc import BaseDomainController\n"
        "from wsgidav.dir_browser import WsgiDavDirBrowser\n"
        "from wsgidav.error_printer import ErrorPrinter\n"
        "from wsgidav.http_authenticator import HTTPAuthenticator\n"
        "from wsgidav.request_resolver import RequestResolver\n"
        "from wsgidav.wsgidav_app import WsgiDAVApp\n",
        "wsgidav merges its defaults itself, and domain controllers have a base class",
    ),
    Span(_FILE, "def check_user(environ):\n", "class ContentIO(", "", _IDENTITY),
    Edit(
        _FILE,
        "from .app import app\n",
        "from .app import app\nfrom .dav_xml import PlainXML\n"
        "from .identity import identify, matches\n",
        f"{_IDENTITY}; {_XML}",
    ),
    Span(
        _FILE,
        "        if 'lock' in projectdb.split_group(self.project.get('group')) \\\n",
        "    def getContentLength(self):\n",
        "        if 'lock' in projectdb.split_group(self.project.get('group')):\n"
        "            who = identify(self.environ, self.app.config)\n"
        "            return who is None or who.is_viewer\n"
        "        return False\n"
        "\n",
        "without a name that was set, anybody could overwrite a locked project",
    ),
    Edit(_FILE, "def getContentLength(self):", "def get_content_length(self):", _NAMES),
    Edit(_FILE, "def getContentType(self):", "def get_content_type(self):", _NAMES),
    Edit(_FILE, "def getLastModified(self):", "def get_last_modified(self):", _NAMES),
    Edit(
        _FILE,
        "    def getContent(self):\n",
        "    def get_etag(self):\n"
        "        return None\n"
        "\n"
        "    def support_etag(self):\n"
        "        return False\n"
        "\n"
        "    def get_content(self):\n",
        "two methods lost their default",
    ),
    Edit(
        _FILE,
        "beginWrite(self, contentType=None)",
        "begin_write(self, *, content_type=None)",
        _NAMES,
    ),
    Edit(_FILE, ".beginWrite(contentType)", ".begin_write(content_type=content_type)", _KEYWORD),
    Edit(_FILE, "'webdav.beginWrite readonly'", "'webdav.begin_write readonly'", _NAMES),
    Edit(
        _FILE,
        "    def endWrite(self, withErrors):\n",
        "    def _read(self):\n"
        "        try:\n"
        "            return text(getattr(self.writebuffer, 'content', ''))\n"
        "        except UnicodeDecodeError as e:\n"
        "            raise DAVError(HTTP_BAD_REQUEST, 'a script is UTF-8: %s' % e)\n"
        "\n"
        "    def _refuse(self):\n"
        "        raise DAVError(HTTP_FORBIDDEN, 'scripts are only read and written here')\n"
        "\n"
        "    def delete(self):\n"
        "        self._refuse()\n"
        "\n"
        "    def copy_move_single(self, dest_path, *, is_move):\n"
        "        self._refuse()\n"
        "\n"
        "    def move_recursive(self, dest_path):\n"
        "        self._refuse()\n"
        "\n"
        "    def end_write(self, *, with_errors):\n",
        "what it does not do, or cannot read, ended in status 500",
    ),
    Edit(
        _FILE,
        "text(getattr(self.writebuffer, 'content', ''))\n        }",
        "self._read()\n        }",
        "bytes that are no text ended in status 500",
    ),
    Edit(
        _FILE,
        "import DAVError, HTTP_FORBIDDEN",
        "import DAVError, HTTP_BAD_REQUEST, HTTP_FORBIDDEN",
        "bytes that are no text ended in status 500",
    ),
    Edit(_FILE, ".endWrite(withErrors)", ".end_write(with_errors=with_errors)", _KEYWORD),
    Edit(_FILE, "if withErrors:", "if with_errors:", _KEYWORD),
    Edit(_FILE, "endWrite error: %r', withErrors", "end_write error: %r', with_errors", _KEYWORD),
    Edit(_FILE, "def getMemberList(self):", "def get_member_list(self):", _NAMES),
    Edit(_FILE, "def getMemberNames(self):", "def get_member_names(self):", _NAMES),
    Edit(
        _FILE,
        "members.append(utf8(project_name))",
        "members.append(project_name)",
        "names are str since wsgidav 3",
    ),
    Edit(
        _FILE,
        "def getResourceInst(self, path, environ):",
        "def get_resource_inst(self, path, environ):",
        _NAMES,
    ),
    Edit(
        _FILE,
        "        path = os.path.normpath(path)",
        "        if path is None:\n"
        "            raise DAVError(HTTP_FORBIDDEN, 'the folder of scripts stays')\n"
        "        path = os.path.normpath(path)",
        "wsgidav asks for the parent of what is deleted; that of the root is None",
    ),
    Span(
        _FILE,
        "class NeedAuthController(object):\n",
        "dav_app = WsgiDAVApp(config)",
        "class NeedAuthController(BaseDomainController):\n"
        "    def get_domain_realm(self, path_info, environ):\n"
        "        return 'need auth'\n"
        "\n"
        "    def require_authentication(self, realm, environ):\n"
        "        if app.config.get('identify'):\n"
        "            return False  # who guards the web UI has asked already\n"
        "        return app.config.get('need_auth', False) or (\n"
        "            self.changes(environ) and app.config.get('login_to_change', False))\n"
        "\n"
        "    def changes(self, environ):\n"
        "        return environ is not None and environ['REQUEST_METHOD'] not in (\n"
        "            'GET', 'HEAD', 'OPTIONS', 'PROPFIND')\n"
        "\n"
        "    def password_of(self, user_name, environ):\n"
        "        # None if there is no such user, or it may not do this\n"
        "        if user_name == app.config.get('webui_username'):\n"
        "            return app.config.get('webui_password') or None\n"
        "        if user_name == app.config.get('viewer_username') and not self.changes(environ):\n"
        "            return app.config.get('viewer_password') or None\n"
        "        return None\n"
        "\n"
        "    def basic_auth_user(self, realm, user_name, password, environ):\n"
        "        roles = ('webui',) if self.changes(environ) else ('webui', 'viewer')\n"
        "        given = (user_name, password)\n"
        "        return any(matches(given, app.config, role) for role in roles)\n"
        "\n"
        "    def supports_http_digest_auth(self):\n"
        "        return True\n"
        "\n"
        "    def digest_auth_user(self, realm, user_name, environ):\n"
        "        expected = self.password_of(user_name, environ)\n"
        "        return expected is not None and self._compute_http_digest_a1(\n"
        "            realm, user_name, expected)\n"
        "\n\n"
        "class DirBrowser(WsgiDavDirBrowser):\n"
        "    def __call__(self, environ, start_response):\n"
        "        try:\n"
        "            urlsplit(environ.get('HTTP_DESTINATION', ''))\n"
        "        except ValueError as e:\n"
        "            raise DAVError(HTTP_BAD_REQUEST, 'Destination is no URL: %s' % e)\n"
        "        return super(DirBrowser, self).__call__(environ, start_response)\n"
        "\n"
        "    def _fail(self, value, context_info=None, **_):\n"
        "        raise DAVError(value, context_info)  # wsgidav 4 gives it two arguments too many\n"
        "\n\n"
        "config = {\n"
        "    'middleware_stack': [\n"
        "        ErrorPrinter, HTTPAuthenticator, PlainXML, DirBrowser, RequestResolver],\n"
        "    'mount_path': '/dav',\n"
        "    'provider_mapping': {\n"
        "        '/': ScriptProvider(app)\n"
        "    },\n"
        "    'http_authenticator': {\n"
        "        'domain_controller': NeedAuthController,\n"
        "    },\n"
        "    'verbose': 1 if app.debug else 0,\n"
        "    'dir_browser': {'davmount': False,\n"
        "                    'enable': True,\n"
        "                    'ms_sharepoint_support': False,\n"
        "                    'libre_office_support': False,\n"
        "                    'response_trailer': ''},\n"
        "}\n",
        "a domain controller is a class that wsgidav makes; its options moved and got other names",
    ),
    Edit(
        _FILE,
        "dav_app = WsgiDAVApp(config)",
        "\n"
        "class DavApp(WsgiDAVApp):\n"
        "    def __call__(self, environ, start_response):\n"
        "        try:\n"
        "            environ['PATH_INFO'].encode('latin-1').decode()\n"
        "        except UnicodeDecodeError:\n"
        "            told = b'a path is UTF-8'\n"
        "            head = [('Content-Type', 'text/plain'), ('Content-Length', str(len(told)))]\n"
        "            start_response('400 Bad Request', head)\n"
        "            return [told]\n"
        "        return self._whole(environ, start_response)\n"
        "\n"
        "    def _whole(self, environ, start_response):\n"
        "        yield from (yield from super().__call__(environ, start_response)) or ()\n"
        "\n\n"
        "dav_app = DavApp(config)",
        "a path above the root had no body, and one that is no UTF-8 no answer",
    ),
)
