"""What did one observation say, of its own attempt and of nothing else?"""

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as member

from ledger.rules.attempts import Word
from ledger.rules.vocabulary import Action, Effect, FailureClass, Phase, Proof, Request, Speaker, Verification
from recovery.judgement.codes import Code

POLLS = frozenset({"lro", "mcp_task"})
"""Kinds that ask how far the work of an earlier request is."""
NOT_REQUESTS = POLLS | {"lookup", "verification"}
"""Kinds that speak of an earlier request and are none themselves."""
_CAME_TO_NOTHING = frozenset({Code.POLL_FAILED, Code.ANSWER_NOT_RECOGNISED})
"""With an unknown outcome: codes of a poll that says nothing of the work it asked about."""

Scalar = str | int | float | bool


class ObservationInvalid(ValueError):
    """The observation is not of the shape that its kind has. Correct the member that `field` names and send again."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemReading:
    """One item of a batch, as its own answer tells it. An item whose effect is `none` (with its proof) may be sent
    again by itself; one that is `unknown` is looked up by itself."""

    key: str
    """The item's own key, as the request or the answer names it; `*` for those that neither names."""
    effect: Effect
    failure_class: FailureClass
    code: str
    rule: str
    proof: Proof | None = None
    remedy: Action | None = None
    field: str | None = None
    owner_code: str | None = None
    retry_after_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """An observation, read: who spoke, how far the bytes got, and what that proves."""

    kind: str
    speaker: Speaker
    phase: Phase | None
    failure_class: FailureClass
    effect: Effect
    """Of this attempt alone. The operation's effect is the join over its attempts."""
    proof: Proof | None
    """What stands behind `none` or `applied`; None for every other effect, and for reads."""
    request: Request
    rule: str
    """The row of the default tables, or the contract's rule, that fired."""
    code: str
    remedy: Action | None = None
    """The action that this signal asks for where it is not its class's usual one."""
    field: str | None = None
    """The rejected member, as a JSON path into the call."""
    hint: str | None = None
    """The contract's own sentence for this answer; None leaves the sentence to the rule table."""
    alternatives: tuple[Scalar, ...] = ()
    owner_code: str | None = None
    """The owner's own code, as it stood in a structured member. Shown, never told to an agent as advice."""
    retry_after_ms: int | None = None
    """The wait that the answer asked for; None when it asked for none."""
    retry_after_raw: str | None = None
    """Where that wait was read and how it was written."""
    network_attempts: int = 1
    """Real requests behind this observation, an SDK's own repeats too."""
    replayed: bool = False
    """The owner says that it answered with what it keeps under the key, from an earlier request."""
    receipt: Mapping[str, Scalar] = member(default_factory=dict)
    """The contract's receipt members, read from the owner's answer."""
    items: tuple[ItemReading, ...] = ()
    """Of a batch: every item that the answer or the request names."""
    verification: Verification | None = None
    """What a check of the outcome says; None when the observation is none."""
    quoted: tuple[str, ...] = ()
    """Foreign prose, kept to be shown. It decides nothing."""
    read: tuple[str, ...] = ()
    """Members that were looked at."""
    unread: tuple[str, ...] = ()
    """Members that nothing here knows. They decide nothing."""
    violations: tuple[str, ...] = ()
    """Where the answer and the contract disagree, in words."""

    @property
    def word(self) -> Word:
        """How this belongs to the attempt that it was reported of."""
        if self.kind not in NOT_REQUESTS:
            return Word.ANSWER
        if self.kind not in POLLS:
            return Word.ASIDE if self.effect is Effect.UNKNOWN else Word.FOUND
        lost = self.failure_class is FailureClass.UNKNOWN_OUTCOME and self.code in _CAME_TO_NOTHING
        return Word.ASIDE if lost else Word.POLL
