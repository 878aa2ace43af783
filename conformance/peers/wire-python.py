"""Gives back what it got, and measures it: a text that the wire alters is found before it is blamed on a policy."""

from serve import serve


def refuse(arguments):
    raise ValueError("no")


serve(
    {
        "echo": lambda arguments: arguments,
        "lengths": lambda arguments: [len(text) for text in arguments["texts"]],
        "heads": lambda arguments: [text[: arguments["units"]] for text in arguments["texts"]],
        "refuse": refuse,
    }
)
