"""A report's document in the forms people want: Markdown, LaTeX, MTEB-style JSON, one HTML page, a terminal.

Everything here returns strings or JSON documents. What tables and notes there are is said once, in tables.py.
"""
