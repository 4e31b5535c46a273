"""Steering the assignment: settings of the whole cluster, maintenance, evictions and pins."""

from typing import Any

from marshmallow import Schema, fields, validate

from pyspider_zk.cluster.cluster_settings import (
    MOST_NUMBER,
    RANGES,
    ClusterSettings,
    Maintenance,
    WeighBy,
)
from pyspider_zk.cluster.orders import Orders
from pyspider_zk.errors import NotFound
from pyspider_zk.webui.api.backend import backend, user
from pyspider_zk.webui.api.blueprint import Part
from pyspider_zk.webui.api.schemas import Switch, about, mirrors, number_field

blueprint = Part("steering", __name__, description="What the whole cluster goes by")


class PinSchema(Schema):
    """A slot that shall be at a member whenever that is there."""

    slot = number_field("its number")
    member = number_field("the member's number")


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

    undo = Switch(load_default=False, metadata=about("let it get slots again"))


class PinningSchema(Schema):
    """Where a slot shall be."""

    member = fields.Integer(
        required=True,
        strict=True,
        allow_none=True,
        validate=validate.Range(0, MOST_NUMBER),
        metadata=about("number of a member; null: anywhere"),
    )


@blueprint.route("/settings")
@blueprint.tells(ClusterSettingsSchema, errors=(409,))
def get_settings() -> dict[str, Any]:
    """Return the settings of the whole cluster."""
    return told(_orders().read())


@blueprint.route("/settings", methods=["POST"])
@blueprint.arguments(SettingValuesSchema)
@blueprint.does(ClusterSettingsSchema, errors=(409,))
def set_settings(values: dict[str, Any]) -> dict[str, Any]:
    """Set some of them; every scheduler takes them over while it runs."""
    return told(_orders().set(values))


@blueprint.route("/maintenance", methods=["POST"])
@blueprint.arguments(MaintenanceSchema)
@blueprint.does(ClusterSettingsSchema, errors=(409,))
def set_maintenance(asked: dict[str, Any]) -> dict[str, Any]:
    """Let the assignment stand still, or go on."""
    return told(_orders().maintain(Maintenance(asked["mode"])))


@blueprint.route("/members/<int:number>/evict", methods=["POST"])
@blueprint.arguments(EvictSchema)
@blueprint.does(ClusterSettingsSchema, errors=(404, 409))
def evict_member(asked: dict[str, Any], number: int) -> dict[str, Any]:
    """Move a member's slots to others and give it none, until that is undone.

    It needs no answer from the member, whose process runs on.
    """
    orders = _orders()
    return told(orders.admit(number) if asked["undo"] else orders.evict(number))


@blueprint.route("/slots/<int:slot>/pin", methods=["POST"])
@blueprint.arguments(PinningSchema)
@blueprint.does(ClusterSettingsSchema, errors=(404, 409))
def pin_slot(asked: dict[str, Any], slot: int) -> dict[str, Any]:
    """Keep a slot at a member whenever that is there, or let it be anywhere."""
    slots = backend().settings.slots
    if slot >= slots:
        raise NotFound(f"there is no slot {slot}: the cluster has {slots}, from 0 on")
    member, orders = asked["member"], _orders()
    return told(orders.unpin(slot) if member is None else orders.pin(slot, member))


def told(settings: ClusterSettings) -> dict[str, Any]:
    """Return settings as the API tells them."""
    values = {name: getattr(settings, name) for name in settings.__dataclass_fields__}
    pins = [{"slot": slot, "member": to} for slot, to in sorted(settings.pins.items())]
    return {**values, "evicted": list(settings.evicted), "pins": pins}


def _orders() -> Orders:
    return backend().orders(user())
