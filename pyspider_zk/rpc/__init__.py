"""XML-RPC between the members, the web UI and clients."""
