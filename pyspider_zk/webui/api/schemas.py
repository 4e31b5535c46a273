"""Schemas of what the API takes and answers."""

from typing import Any

from marshmallow import Schema, fields, validate

from pyspider_zk.cluster.alerts import Alert
from pyspider_zk.cluster.cluster_settings import (
    MOST_NUMBER,
    RANGES,
    ClusterSettings,
    Maintenance,
    WeighBy,
)
from pyspider_zk.cluster.events import Event
from pyspider_zk.cluster.rebalancing import SlotMove
from pyspider_zk.cluster.records import Component, Load, Member, Phase, Slot
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.jobs.answers import BATCH_STATES, BatchStatus, Plan, Project
from pyspider_zk.jobs.model import GROUP_LIMIT, PRIORITIES, JobState
from pyspider_zk.jobs.operations import Operation
from pyspider_zk.jobs.project_list import SORTS
from pyspider_zk.projects.rows import STATUSES
from pyspider_zk.queues.api import DeadLetter
from pyspider_zk.webui.api.mirrors import about, mirrors
from pyspider_zk.webui.rebalancer import RebalanceProgress

MOST_ITEMS = 1000
MOST_NAMES = 100_000
LONGEST_REBALANCE = 3600.0  # seconds
SINCE_EPOCH = "seconds since the epoch"

_ORDERS = [*SORTS, *(f"-{key}" for key in SORTS)]


def _text(text: str = "") -> fields.String:
    return fields.String(required=True, metadata=about(text))


def _number(text: str = "", **more: Any) -> fields.Integer:
    return fields.Integer(required=True, strict=True, metadata=about(text), **more)


def _time(text: str = SINCE_EPOCH) -> fields.Float:
    return fields.Float(required=True, metadata=about(text))


def _measure(text: str, **more: Any) -> fields.Float:
    return fields.Float(required=True, metadata=about(text), **more)


def _owner(text: str = "number of the member that schedules it", null: str = "") -> fields.Integer:
    return _number(f"{text}; null: nobody just now{null}", allow_none=True)


# --- errors ---


class ProblemSchema(Schema):
    """What went wrong, as problem details (RFC 9457)."""

    type = fields.String(required=True)
    title = _text("the status in words")
    status = _number("the HTTP status")
    detail = _text("what is wrong with which part, and the remedy")
    errors = fields.Dict(
        keys=fields.String(), metadata=about("what is wrong, by part and field of the request")
    )
    projects = fields.List(fields.String(), metadata=about("the projects that it is about"))


# --- paging ---


class PageQuerySchema(Schema):
    """Some of many."""

    offset = fields.Integer(
        load_default=0, validate=validate.Range(0), metadata=about("how many to leave out")
    )
    limit = fields.Integer(
        load_default=100,
        validate=validate.Range(1, MOST_ITEMS),
        metadata=about("how many at most"),
    )


class PageOfSchema(Schema):
    """What all pages have beside their items."""

    total = _number("how many there are in all")
    offset = _number("how many were left out")


# --- projects ---


class WhichSchema(Schema):
    """Projects by what their rows say."""

    pattern = fields.String(metadata=about("a shell pattern for the whole name, such as news_*"))
    group = fields.String(metadata=about("one of the project's groups"))
    status = fields.String(validate=validate.OneOf(STATUSES))


class ProjectQuerySchema(WhichSchema, PageQuerySchema):
    """Which projects; all that is given must hold."""

    owner = fields.Integer(validate=validate.Range(0), metadata=about("number of a member"))
    sort = fields.String(
        load_default="name",
        validate=validate.OneOf(_ORDERS),
        metadata=about("with - before it the other way round"),
    )


@mirrors(
    Project,
    status="TODO, STOP, CHECKING, DEBUG or RUNNING",
    rate="tasks per second; null: none, or infinite",
    burst="tasks at once; null: none, or infinite",
    updatetime="last change",
    slot="the slot that it belongs to",
)
class ProjectSchema(Schema):
    """A project without its script."""

    owner = _owner(null=", or it is `missing`")


class ProjectPageSchema(PageOfSchema):
    """Projects, those from `offset` on."""

    items = fields.List(fields.Nested(ProjectSchema), required=True)
    missing = fields.List(fields.String(), required=True, metadata=about("what does not answer"))


class RouteSchema(ProjectSchema):
    """A project and who schedules it."""

    address = fields.String(
        required=True, allow_none=True, metadata=about("host:port of the owner's XML-RPC")
    )
    phase = fields.Enum(Phase, by_value=True, required=True)
    next = _owner("number of the member that gets the slot once it is released")


# --- the cluster ---


@mirrors(
    MemberId,
    Member,
    Load,
    number="small and stable",
    incarnation="its life within one ZooKeeper session",
    address="host:port of its XML-RPC; with https:// before it if it speaks TLS",
    started=SINCE_EPOCH,
    name="its identity, if it was given one",
    draining="its slots are moving away",
    protocols="the lowest and the highest protocol that it speaks",
    projects="how many projects it has in memory",
    pending="how many tasks it has in memory",
    tasks_per_s="tasks that ended per second, over the last seconds",
    cpu="share of one processor that its process used meanwhile",
    quarantined="how many of its projects are in quarantine",
    away="databases that do not answer it",
    without=("slot_rates",),
)
class MemberSchema(Schema):
    """A scheduler that runs."""

    leader = fields.Boolean(required=True)
    slots = _number("how many slots it owns")
    lease = _measure("seconds that its lease lasts from one renewal", allow_none=True)


class MembersSchema(Schema):
    """The schedulers that run."""

    leader = _owner("number of the member that decides the assignment")
    items = fields.List(fields.Nested(MemberSchema), required=True)


@mirrors(
    Component,
    started=SINCE_EPOCH,
    address="host:port, if it serves",
    protocols="the lowest and the highest protocol that it speaks",
)
class ComponentSchema(Schema):
    """A processor, fetcher, result worker, renderer or web UI that runs."""

    id = _text()


class ComponentsSchema(Schema):
    """Those that run, by kind."""

    items = fields.Dict(
        keys=fields.String(), values=fields.List(fields.Nested(ComponentSchema)), required=True
    )


@mirrors(Slot, epoch="grows by one with every grant")
class SlotSchema(Schema):
    """One row of the assignment."""

    slot = _number("its number")
    owner = _owner("number of the member that owns it, even if it has just died")
    next = _owner("number of the member that gets it once it is released")
    phase = fields.Enum(Phase, by_value=True, required=True)


class AssignmentSchema(Schema):
    """Which member owns which slot."""

    epoch = _number("grows by one with every write of the assignment")
    unserved = _number("slots without a running owner")
    members = fields.List(fields.Nested(MemberSchema), required=True)
    items = fields.List(fields.Nested(SlotSchema), required=True)


class QueuesSchema(Schema):
    """How many messages wait."""

    queues = fields.Dict(keys=fields.String(), values=fields.Integer(strict=True), required=True)
    dead_letters = _number("messages that nobody could use")


class PreviewQuerySchema(Schema):
    """What would happen."""

    joins = fields.Integer(
        load_default=0, validate=validate.Range(0, 100), metadata=about("so many new members")
    )
    leaves = fields.Integer(
        validate=validate.Range(0), metadata=about("number of a member that would drain")
    )
    without_maintenance = fields.Boolean(
        load_default=False, metadata=about("as if maintenance were off: what a rebalancing moves")
    )


class PreviewPairSchema(Schema):
    """How many slots would move between two members."""

    source = _owner("number of the present owner")
    target = _owner("number of the next owner; of one that would join, a free one")
    slots = _number("how many")


@mirrors(SlotMove, slot="its number")
class PreviewMoveSchema(Schema):
    """A slot that would move."""

    source = _owner("number of the present owner")
    target = _owner("number of the next owner; of one that would join, a free one")


class PreviewSchema(Schema):
    """Which slots would move."""

    total = _number("how many slots")
    digest = _text("stands for these moves")
    pairs = fields.List(fields.Nested(PreviewPairSchema), required=True)
    items = fields.List(fields.Nested(PreviewMoveSchema), required=True)


class RebalanceSchema(Schema):
    """Which moves are meant, and how long they may take."""

    plan = fields.String(
        metadata=about("the preview's digest, without maintenance: 409 if other slots would move")
    )
    timeout = fields.Float(
        load_default=120.0,
        validate=validate.Range(1, LONGEST_REBALANCE),
        metadata=about("seconds after which maintenance goes on in any case"),
    )


@mirrors(
    RebalanceProgress,
    total="slots that were to move",
    left="of them, those that have not arrived",
    fault="why it failed, and the remedy; empty: it did not",
)
class RebalanceProgressSchema(Schema):
    """How far a rebalancing is."""


class DrainSchema(Schema):
    """Which process is meant; a number may have gone to another."""

    incarnation = fields.String(metadata=about("as `/members` tells; 409 if it is another by now"))


class DrainedSchema(Schema):
    """A member that was asked to drain."""

    number = _number("of the member")
    others = _number("members that can take its slots; 0: they wait for one, on hold for itself")


class PinSchema(Schema):
    """A slot that shall be at a member whenever that is there."""

    slot = _number("its number")
    member = _number("the member's number")


@mirrors(
    ClusterSettings,
    lease="seconds that a renewal lasts; null: each scheduler's own setting counts",
    renewal="seconds between two renewals; null: alike",
    restart_delay="seconds that the slots of a stopped member wait for its number to be back",
    moves="how many slots may be moving at once, if their members could keep them",
    maintenance="off; on: nothing is evened out; hold: not even a dead member's slots move",
    evicted="numbers of the members that get no slots",
    weigh_by="load: a slot weighs its active projects and tasks per second; projects: only those",
    weigh_every="seconds between two looks at the tasks per second",
    rebalance="the slots are being evened out although maintenance is on",
    without=("pins",),
)
class ClusterSettingsSchema(Schema):
    """What the whole cluster goes by."""

    pins = fields.List(fields.Nested(PinSchema), required=True)


def _setting(name: str, field: type[fields.Field[Any]], **more: Any) -> fields.Field[Any]:
    least, most = RANGES[name]
    return field(
        allow_none=True,
        validate=validate.Range(least, most),
        metadata=about("null: unset it"),
        **more,
    )


class SettingValuesSchema(Schema):
    """The settings to change; the others stay. A lease is at least three renewals."""

    lease = _setting("lease", fields.Float)
    renewal = _setting("renewal", fields.Float)
    restart_delay = _setting("restart_delay", fields.Float)
    moves = _setting("moves", fields.Integer, strict=True)
    weigh_by = fields.String(
        allow_none=True, validate=validate.OneOf([*WeighBy]), metadata=about("null: unset it")
    )
    weigh_every = _setting("weigh_every", fields.Float)


class MaintenanceSchema(Schema):
    """Whether the assignment stands still."""

    mode = fields.String(required=True, validate=validate.OneOf([*Maintenance]))


class EvictSchema(Schema):
    """Whether a member gets no slots."""

    undo = fields.Boolean(load_default=False, metadata=about("let it get slots again"))


class PinningSchema(Schema):
    """Where a slot shall be."""

    member = fields.Integer(
        required=True,
        strict=True,
        allow_none=True,
        validate=validate.Range(0, MOST_NUMBER),
        metadata=about("number of a member; null: anywhere"),
    )


# --- everything at one look ---


@mirrors(
    Alert,
    text="a sentence for people",
    about="the member, component or database that it is about, or empty",
)
class AlertSchema(Schema):
    """Something to look at."""


class WatchedMemberSchema(MemberSchema):
    """A scheduler that runs, and how old its lease is."""

    lease_age = _measure(
        "seconds since this web UI first saw the present renewal; it is at least as old"
    )
    suspect = fields.Boolean(
        required=True, metadata=about("no renewal for more than half of the lease")
    )


class QueueSchema(Schema):
    """Messages that wait."""

    name = _text()
    length = _number("how many; a kind of slot queue counts as one")
    oldest = _measure(
        "seconds that the oldest message of a slot queue has waited; null: none does, or pyspider's"
        " own queue does not tell",
        allow_none=True,
    )


class QuarantinedSchema(Schema):
    """A project that is left alone because of its own fault."""

    project = _text()
    member = _owner("number of its owner")
    reason = _text("what is wrong with it")
    since = _time("when it came into quarantine, seconds since the epoch")
    failures = _number("how often it was looked at in vain")
    next_look = _measure("seconds until it is looked at again; sooner if its row changes")


class UnreadableSchema(Schema):
    """Something that nobody can read, and that is passed over."""

    place = _text("a znode's path, or a key of the message queue")
    reason = _text("what is wrong with it")


class ThroughputSchema(Schema):
    """Tries that ended in each of the last 60 minutes, the oldest first."""

    success = fields.List(fields.Integer(strict=True), required=True)
    failed = fields.List(fields.Integer(strict=True), required=True)
    retry = fields.List(fields.Integer(strict=True), required=True)


class OverviewSchema(Schema):
    """The whole cluster; null: unknown, `missing` says why."""

    at = _time()
    missing = fields.List(fields.String(), required=True, metadata=about("what does not answer"))
    alerts = fields.List(fields.Nested(AlertSchema), required=True)
    leader = _owner("number of the member that decides the assignment")
    epoch = _number("of the assignment", allow_none=True)
    slots = _number("how many there are", allow_none=True)
    moving = _number("slots between two owners", allow_none=True)
    unserved = _number("slots without a running owner", allow_none=True)
    members = fields.List(fields.Nested(WatchedMemberSchema), required=True, allow_none=True)
    components = fields.Dict(
        keys=fields.String(),
        values=fields.List(fields.Nested(ComponentSchema)),
        required=True,
        allow_none=True,
    )
    queues = fields.List(fields.Nested(QueueSchema), required=True, allow_none=True)
    dead_letters = _number("messages that nobody could use", allow_none=True)
    settings = fields.Nested(ClusterSettingsSchema, required=True, allow_none=True)
    quarantine = fields.List(
        fields.Nested(QuarantinedSchema), required=True, metadata=about("the first of them")
    )
    unreadable = fields.List(
        fields.Nested(UnreadableSchema), required=True, metadata=about("the first of them")
    )
    throughput = fields.Nested(ThroughputSchema, required=True, allow_none=True)


# --- projects with numbers ---

NUMBER_SORTS = ("pending", "due", "sent", "due_since", "next_due", "success", "failed", "rate_now")


class WorkloadQuerySchema(ProjectQuerySchema):
    """Which projects, in which order; all that is given must hold."""

    sort = fields.String(
        load_default="name",
        validate=validate.OneOf([*_ORDERS, *NUMBER_SORTS, *(f"-{key}" for key in NUMBER_SORTS)]),
        metadata=about("with - before it the other way round; unknown numbers come last"),
    )


class HourSchema(Schema):
    """Tries that ended within the last hour."""

    success = _number()
    failed = _number()
    retry = _number()


class NumbersSchema(Schema):
    """What a project's owner holds."""

    pending = _number("tasks in memory")
    due = _number("of them, those that wait for nothing but their rate")
    sent = _number("of them, those that fetcher and processor have")
    due_since = fields.Float(
        required=True,
        allow_none=True,
        metadata=about("since when the oldest due task waits in its owner's memory"),
    )
    next_due = fields.Float(
        required=True, allow_none=True, metadata=about("when the next of the others is due")
    )
    paused = fields.Boolean(required=True, metadata=about("after too many failures"))
    success = _number("tasks in the database")
    failed = _number("tasks in the database")
    hour = fields.Nested(HourSchema, required=True)
    rate_now = _measure("tries that ended per second, over five minutes")
    quarantined = fields.String(
        required=True,
        allow_none=True,
        metadata=about("why it is in quarantine; null: it is not"),
    )


class WorkloadSchema(ProjectSchema):
    """A project with its numbers."""

    numbers = fields.Nested(NumbersSchema, required=True, allow_none=True)
    history = fields.List(
        fields.Integer(strict=True),
        required=True,
        allow_none=True,
        metadata=about("tries that ended in each of the last 60 minutes; null: none, or unknown"),
    )


class WorkloadPageSchema(PageOfSchema):
    """Projects, those from `offset` on."""

    at = _time("when this was reported, seconds since the epoch")
    items = fields.List(fields.Nested(WorkloadSchema), required=True)
    missing = fields.List(fields.String(), required=True, metadata=about("what does not answer"))


# --- dead letters ---


@mirrors(
    DeadLetter,
    without=("kind", "slot", "body"),
    tag="its name among them",
    reason="what is wrong with it",
    time="when it was found, seconds since the epoch",
)
class DeadLetterSchema(Schema):
    """A message that nobody could use."""

    queue = _text("where it was found")
    message = fields.Raw(required=True, allow_none=True, metadata=about("as JSON can hold it"))
    bytes = _number("how long it is")
    cut = fields.Boolean(
        required=True,
        metadata=about("whether only the first bytes are shown; it is replayed whole"),
    )


class DeadLetterPageSchema(PageOfSchema):
    """Dead letters, the newest first."""

    items = fields.List(fields.Nested(DeadLetterSchema), required=True)


class LettersSchema(Schema):
    """Which dead letters."""

    tags = fields.List(fields.String(), validate=validate.Length(1, MOST_NAMES))
    all = fields.Boolean(
        truthy={True},
        falsy={False},
        load_default=False,
        metadata=about("all that there are now"),
    )
    count = fields.Integer(
        strict=True, metadata=about("how many these were when you looked; 409 if no more")
    )


class SettledSchema(Schema):
    """What was done with dead letters."""

    count = _number("how many of them there were")


# --- batches ---


class FilterSchema(WhichSchema):
    """Projects by what they are; all that is given must hold."""

    owner = fields.Integer(
        strict=True, validate=validate.Range(0), metadata=about("number of a member")
    )
    all = fields.Boolean(
        truthy={True}, falsy={False}, metadata=about("really all, if nothing else is given")
    )


class RequestSchema(Schema):
    """What to do to which projects."""

    operation = fields.String(required=True, validate=validate.OneOf(list(Operation)))
    names = fields.List(
        fields.String(),
        validate=validate.Length(1, MOST_NAMES),
        metadata=about("these projects; with a filter, those of them that it lets through"),
    )
    filter = fields.Nested(FilterSchema)
    arguments = fields.Dict(
        keys=fields.String(),
        load_default=dict,
        metadata=about(
            "delete: wait (for pyspider's 24 hours); rate: rate and burst;"
            " group: group; status: status;"
            " refetch: tasks (ids), state, callback, error (text in the last one)"
        ),
    )
    dry_run = fields.Boolean(
        truthy={True},
        falsy={False},
        load_default=False,
        metadata=about("only return what it would do"),
    )
    id = fields.String(
        validate=[
            validate.Length(1, GROUP_LIMIT),
            validate.Regexp(r"[A-Za-z0-9_][A-Za-z0-9_.~+:-]*\Z"),
        ],
        metadata=about("the batch's id, so that it may be sent again when the answer was lost"),
    )
    plan = fields.String(
        metadata=about("a plan's digest: 409 if other projects are meant by now"),
    )
    priority = fields.Integer(
        strict=True,
        validate=validate.Range(PRIORITIES.start, PRIORITIES.stop - 1),
        metadata=about("the highest comes first"),
    )


JobCountsSchema = Schema.from_dict(
    {state.value: _number() for state in JobState}, name="JobCountsSchema"
)
"""How many jobs a batch has in each place."""


@mirrors(
    BatchStatus,
    selection="the filter; empty if names were given",
    user="who asked; empty: nobody was logged in",
    created=SINCE_EPOCH,
    total="projects",
    done="projects",
    failed="projects",
    remaining="projects",
    errors="the first projects that failed, with the reasons",
)
class BatchSchema(Schema):
    """One request for an operation; jobs of up to 2,000 projects of a slot carry it out."""

    state = fields.String(required=True, validate=validate.OneOf(BATCH_STATES))
    jobs = fields.Nested(JobCountsSchema, required=True)


class BatchPageSchema(PageOfSchema):
    """Batches, the newest first."""

    items = fields.List(fields.Nested(BatchSchema), required=True)


@mirrors(
    Plan,
    count="projects",
    names="the first of them",
    jobs="how many jobs it would become",
    digest="stands for all the names; send it as `plan` to have exactly these done",
)
class PlanSchema(Schema):
    """What a request means, and what would be refused or fail."""


# --- events ---


class EventQuerySchema(Schema):
    """Which events."""

    after = fields.Integer(
        validate=validate.Range(-(2**31), 2**31 - 1),
        metadata=about("the `last` of the answer before; without it the newest events"),
    )
    limit = fields.Integer(
        load_default=100,
        validate=validate.Range(1, MOST_ITEMS),
        metadata=about("how many at most"),
    )


@mirrors(
    Event,
    kind="such as joined, left, died, leader, moved, batch, cancel, ended",
    text="a sentence for people",
    at=SINCE_EPOCH,
)
class EventSchema(Schema):
    """Who did what, when, with what result."""

    sequence = _number("its place in the log; it runs over to negative after 2147483647")


class EventsSchema(Schema):
    """Events, the oldest first."""

    items = fields.List(fields.Nested(EventSchema), required=True)
    last = _number("`after` for the next question; null: there was never any", allow_none=True)
