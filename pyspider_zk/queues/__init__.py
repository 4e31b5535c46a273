"""Slot queues, the inbox and slot records; the only importer of queue clients.

``api.py`` says what they do, ``connect.py`` chooses the implementation from the URL.
"""
