"""The tables of the store. The file has what clients sent and what the model answered, as plain text."""

from inference.database import Schema

TABLES = """
CREATE TABLE objects (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    model TEXT,
    previous TEXT,
    conversation TEXT,
    conversation_end INTEGER NOT NULL,
    is_running INTEGER NOT NULL,
    changed REAL NOT NULL,
    value TEXT NOT NULL,
    UNIQUE (owner, kind, id)
);
CREATE INDEX objects_by_change ON objects (changed);
CREATE INDEX objects_in_order ON objects (owner, kind, number);
CREATE TABLE items (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    object INTEGER NOT NULL REFERENCES objects ON DELETE CASCADE,
    owner TEXT NOT NULL,
    origin TEXT NOT NULL,
    id TEXT NOT NULL,
    value TEXT NOT NULL
);
CREATE INDEX items_of_object ON items (object, number);
CREATE INDEX items_by_id ON items (owner, id);
"""
SCHEMA = Schema("the store of responses", 1, TABLES)
