"""What all tables' modules stand on: a connection, used in its own thread only."""

import sqlite3


class Rows:
    """SQL over one connection. Each table's module adds its verbs; `store/tx.py` joins them."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.posted = False  # something to deliver was written down; its reader sets it back
