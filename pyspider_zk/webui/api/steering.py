"""Steering the assignment: settings of the whole cluster, maintenance, evictions and pins."""

from typing import Any

from pyspider_zk.cluster.cluster_settings import ClusterSettings, Maintenance
from pyspider_zk.cluster.orders import Orders
from pyspider_zk.errors import NotFound
from pyspider_zk.webui.api.backend import backend, user
from pyspider_zk.webui.api.blueprint import Part
from pyspider_zk.webui.api.schemas import (
    ClusterSettingsSchema,
    EvictSchema,
    MaintenanceSchema,
    PinningSchema,
    SettingValuesSchema,
)

blueprint = Part("steering", __name__, description="What the whole cluster goes by")


@blueprint.route("/settings")
@blueprint.tells(ClusterSettingsSchema, errors=(409,))
def get_settings() -> dict[str, Any]:
    """Return the settings of the whole cluster."""
    return told(backend().settings_store.read())


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
    return Orders(backend().settings_store, user())
