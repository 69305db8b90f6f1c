"""A volume for each stock client, and the clients."""

from __future__ import annotations

from proof.linux.appliance import POOL, Appliance
from proof.stock.client import StockClient

TARGET = "iqn.2026-01.org.example:stock"
INITIATOR = "iqn.1993-08.org.debian:01:stock"
ADDRESS = "10.77.1.100"
NETWORK = "10.77.1.0/24"
SIZE = "16M"


def export(appliance: Appliance) -> None:
    """Creates a volume for each protocol."""
    head = appliance.settle()
    for name in ("stock-iscsi", "stock-nbd"):
        appliance.on(head, "bulkhead", "volume", "create", f"{POOL}/{name}", "--size", SIZE, "--sparse")
    appliance.on(head, "bulkhead", "target", "create", TARGET, "--pool", POOL)
    appliance.on(head, "bulkhead", "target", "allow", TARGET, "--pool", POOL, "--initiator", INITIATOR, "--network", NETWORK)
    appliance.on(head, "bulkhead", "target", "map", TARGET, f"{POOL}/stock-iscsi", "--lun", "0")
    appliance.on(head, "bulkhead", "nbd", "export", f"{POOL}/stock-nbd", "--name", "stock", "--allow-network", NETWORK)


def clients_of(appliance: Appliance) -> list[StockClient]:
    """Starts a client for each volume, by one address of the pool."""
    enter = appliance.enter_client()
    iscsi = f"driver=iscsi,transport=tcp,portal={ADDRESS},target={TARGET},lun=0,initiator-name={INITIATOR}"
    nbd = f"driver=nbd,server.type=inet,server.host={ADDRESS},server.port=10809,export=stock,reconnect-delay=120"
    return [StockClient("iscsi", enter, iscsi), StockClient("nbd", enter, nbd)]


__all__ = ["clients_of", "export"]
