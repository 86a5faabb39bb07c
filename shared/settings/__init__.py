"""The pools file: what users may write, and what it means."""
