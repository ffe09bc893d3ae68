"""The archived form of an event log: one file per process, columnar and compressed.

| module | what it knows |
|---|---|
| `byte_tables` | columns of bytes as an Arrow stream that is compressed with zstd, and what such a stream may claim |
| `record_columns` | records as columns that compress well, and back |
| `contents` | the members of the file, and what the description among them says |
| `archived_log` | reading: the same parts of an event log that a folder has |
| `archive_writer` | writing, from any capture |
| `restoring` | the folder of a capture, made again |

native/FORMAT.md describes the file.
"""
