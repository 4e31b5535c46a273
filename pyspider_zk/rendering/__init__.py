"""The renderer: pages as a browser shows them, by the protocol of pyspider's PhantomJS."""
