# Made by `generate` from the module of the same name in `_aio`.
"""The client."""
