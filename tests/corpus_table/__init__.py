"""A table over a folder of real config files: what the gate says, against what is known of them.

    python -m tests.corpus_table [FOLDER]

What is expected comes from the names of folders and files and from a reader of its own
(`raw.py`), never from the gate's rules. Of a draft in a folder whose name says nothing, the gate's
word that it is served counts.
"""
