"""Which words does the ledger know, and what does each mean?

One meaning each, the same in code, pages, API and docs. Every enum below is the whole list;
its values are the words on the wire and in the database.
"""

from enum import StrEnum


class Request(StrEnum):
    """Was the request accepted?"""

    NOT_SENT = "not_sent"
    """Nothing has left for the owner yet, or it is proved that nothing did."""
    ACCEPTED = "accepted"
    """The owner took it, or we must assume so because bytes left."""
    REJECTED = "rejected"
    """Refused before acting, by us or by the owner."""


class Effect(StrEnum):
    """What happened to the effect in the outside world?"""

    NONE = "none"
    """Proved absent."""
    PENDING = "pending"
    """Accepted and still running."""
    APPLIED = "applied"
    """Proved done."""
    PARTIAL = "partial"
    """Every item accounted for: some applied, others not."""
    UNKNOWN = "unknown"
    """Nobody who may say so has said what happened."""


class Verification(StrEnum):
    """Was the intended outcome checked?"""

    NOT_REQUIRED = "not_required"
    DUE = "due"
    VERIFIED = "verified"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"
    """The check itself could not run."""


class State(StrEnum):
    """Who acts next? Each state's entrances, exits and meaning after a crash stand in lifecycle.py."""

    OPEN = "open"
    DISPATCHED = "dispatched"
    WAITING = "waiting"
    RECONCILING = "reconciling"
    VERIFYING = "verifying"
    BLOCKED = "blocked"
    ESCALATED = "escalated"
    SETTLED = "settled"


class Outcome(StrEnum):
    """How a settled operation ended."""

    APPLIED = "applied"
    NOT_APPLIED = "not_applied"
    PARTIALLY_APPLIED = "partially_applied"
    WRITTEN_OFF = "written_off"
    """Closed by two people with the effect still unknown. Never licenses a repeat."""
    READ = "read"
    """A read that ended; reads have no effect to lose."""


class FailureClass(StrEnum):
    """What kind of failure was it? (semantics: one usual action each)"""

    INVALID_REQUEST = "invalid_request"
    """Refused before execution because of the arguments."""
    AUTHORIZATION = "authorization"
    """The needed operation is outside present authority."""
    TRANSIENT = "transient"
    """The dependency may recover and the effect is known to be none, or the tool is a read."""
    STATE_CONFLICT = "state_conflict"
    """Depended on an outdated version or an unmet precondition."""
    BUSINESS_RULE = "business_rule"
    """The state of the world refuses: slot taken, card declined."""
    NOT_FOUND = "not_found"
    """The addressed thing does not exist for us."""
    UNKNOWN_OUTCOME = "unknown_outcome"
    """No authoritative terminal result."""
    PARTIAL = "partial"
    """Some items applied, others not."""
    VERIFICATION = "verification"
    """Execution returned, but the check failed or could not run."""
    FATAL = "fatal"
    """Broken beyond recovery."""
    SUCCESS = "success"
    """Accepted (effect pending) or done (effect applied)."""


class Action(StrEnum):
    """The one next recovery action of a decision."""

    RETRY = "retry"
    REPAIR = "repair"
    REFRESH = "refresh"
    AUTHORIZE = "authorize"
    RECONCILE = "reconcile"
    VERIFY = "verify"
    RECOVER_ITEMS = "recover_items"
    WAIT = "wait"
    REPLACE = "replace"
    STOP = "stop"
    DONE = "done"
    ESCALATE = "escalate"


class Speaker(StrEnum):
    """Who is speaking? Decides what may be asserted (evidence.py)."""

    HARNESS = "harness"
    """The harness's own SDK, timer or transport; everything that arrives with a harness's token."""
    GATEWAY = "gateway"
    """A gateway, proxy or CDN between us and the owner."""
    OWNER_ANSWER = "owner_answer"
    """The owner's own answer to the dispatched call, as relayed by the harness."""
    OWNER_STATUS = "owner_status"
    """The owner's authoritative lookup by our key, made by Ascertain itself."""
    OWNER_INDEX = "owner_index"
    """The owner's search or list: an index that may lag."""
    OWNER_NOTICE = "owner_notice"
    """The owner's signed notification."""
    VERIFIER = "verifier"
    TOOL_TEXT = "tool_text"
    """Prose of a tool, model or agent. May assert nothing."""
    OPERATOR = "operator"
    """A person, with an evidence reference and a reason."""
    LEDGER = "ledger"
    """Ascertain's own bookkeeping: a lapse, a budget's end. May assert only `unknown`."""


class Phase(StrEnum):
    """How far did the bytes get?"""

    BEFORE_DISPATCH = "before_dispatch"
    RESOLVE = "resolve"
    CONNECT = "connect"
    TLS = "tls"
    SEND = "send"
    AWAIT = "await"
    AFTER_RESPONSE = "after_response"


class Proof(StrEnum):
    """What kind of proof stands behind an effect of `none` or `applied`?"""

    NOT_SENT = "not_sent"
    """No byte of the request left."""
    REFUSED = "refused"
    """The owner (or its own limiter) refused before acting, by a documented signal."""
    CONTRACT_RULE = "contract_rule"
    """The tool's contract says so for this answer."""
    OWNER_RESULT = "owner_result"
    """The owner's answer matched the contract's success rule."""
    LOOKUP_MATCH = "lookup_match"
    """An exact positive match at the owner."""
    GRADED_ABSENCE = "graded_absence"
    """A no_match that passed every condition of the absence grade."""
    ATTESTED = "attested"
    """A person said so, with evidence or a reason."""


class LookupOutcome(StrEnum):
    """What a lookup answered. A lookup that failed is never `no_match`."""

    FOUND = "found"
    NO_MATCH = "no_match"
    LOOKUP_FAILED = "lookup_failed"
    INCONCLUSIVE = "inconclusive"


class Licence(StrEnum):
    """Why a repeat of a write is safe."""

    EFFECT_NONE_PROVED = "effect_none_proved"
    NATURAL_IDEMPOTENCY = "natural_idempotency"
    KEY_IN_WINDOW = "key_in_window"
    ACCEPTED_DUPLICATE_RISK = "accepted_duplicate_risk"


class EffectKind(StrEnum):
    """What a tool does to the world."""

    READ = "read"
    WRITE = "write"
    BATCH = "batch"


class Guarantee(StrEnum):
    """The owner's promise about repeats."""

    NONE = "none"
    NATURAL = "natural"
    KEY = "key"


class Visibility(StrEnum):
    """What the asking principal can see at the owner."""

    ALL = "all"
    OWN = "own"
    UNPROVED = "unproved"


class Role(StrEnum):
    """What a person may do in a workspace."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    CONTRACT_ADMIN = "contract_admin"
    ADMIN = "admin"
    AUDITOR = "auditor"


class Sender(StrEnum):
    """Who sends an attempt."""

    HARNESS = "harness"
    WORKER = "worker"
    """Ascertain itself, by a background worker."""


class Scope(StrEnum):
    """What an API token may do."""

    OPERATIONS_WRITE = "operations:write"
    OPERATIONS_READ = "operations:read"
    APPROVALS_READ = "approvals:read"
