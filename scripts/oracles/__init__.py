"""The languages' own parsers against our function chunks: packages, programs, comparison, report."""
