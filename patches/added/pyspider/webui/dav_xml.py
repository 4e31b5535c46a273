"""The XML of WebDAV requests: short, of few elements, and of nothing else.

Added by pyspider-zk. wsgidav answers every property for every project, whether or not it exists,
and takes a comment for a property without a name.
"""

from io import BytesIO

from lxml import etree
from wsgidav.dav_error import HTTP_BAD_REQUEST, HTTP_REQUEST_ENTITY_TOO_LARGE, DAVError
from wsgidav.mw.base_mw import BaseMiddleware
from wsgidav.util import get_content_length

MOST_BYTES = 16 * 1024
MOST_ELEMENTS = 64  # clients ask for some twenty properties

_METHODS = ("PROPFIND", "PROPPATCH", "LOCK")


class PlainXML(BaseMiddleware):
    """Passes requests on with plain XML, and refuses what is too much or none."""

    def __call__(self, environ, start_response):
        """Answer a request."""
        if environ["REQUEST_METHOD"] in _METHODS and get_content_length(environ):
            body = _plain(_read(environ))
            environ.update({"wsgi.input": BytesIO(body), "CONTENT_LENGTH": str(len(body))})
        return self.next_app(environ, start_response)


def _read(environ):
    length = get_content_length(environ)
    if length > MOST_BYTES:
        raise DAVError(HTTP_REQUEST_ENTITY_TOO_LARGE, f"XML of more than {MOST_BYTES} bytes")
    return environ["wsgi.input"].read(length)


def _plain(body):
    """Return the XML without comments and instructions: they are valid, and mean nothing."""
    parser = etree.XMLParser(remove_comments=True, remove_pis=True, resolve_entities=False)
    try:
        root = etree.fromstring(body, parser)
    except (SyntaxError, ValueError, LookupError) as error:
        raise DAVError(HTTP_BAD_REQUEST, f"no XML: {error}") from error
    if root.getroottree().docinfo.doctype:
        raise DAVError(HTTP_BAD_REQUEST, "XML with a document type, which no request needs")
    if sum(1 for _ in root.iter()) > MOST_ELEMENTS:
        raise DAVError(HTTP_REQUEST_ENTITY_TOO_LARGE, f"XML of more than {MOST_ELEMENTS} elements")
    return etree.tostring(root)
