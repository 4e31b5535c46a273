"""Ways to the pages of the cluster, which stand in the place of pyspider's own."""

# Added by pyspider-zk.
# Licence: Apache 2.0

from urllib.parse import urlencode

from flask import redirect

from .app import app


def lead_to(page, **query):
    """Answer with a redirection to a page; 404 if this web UI is of no cluster."""
    prefix = app.config.get("cluster_pages")
    if not prefix:
        return "this web UI is of no cluster: start it by pyspider-zk.", 404
    search = f"?{urlencode(query)}" if query else ""
    return redirect(f"{prefix}/{page}{search}")
