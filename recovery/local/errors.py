"""How does a person learn that this machine stands in the way?"""


class LocalError(Exception):
    """The local environment cannot go on; `str()` is the sentence to show. Show it without a traceback and exit 1.

    The sentence says what happened, what is safe, and what to do.
    """

    def __init__(self, *, happened: str, safe: str, do: str) -> None:
        self.happened = happened
        self.safe = safe
        self.do = do
        super().__init__(f"{happened} {safe} {do}")
