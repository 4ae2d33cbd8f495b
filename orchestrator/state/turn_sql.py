"""The turn of a row where tenants take turns, as SQL: a tenant of weight 3 has three rows in each turn.

Nearly always no tenant has a weight other than 1. So PostgreSQL looks first, once a statement, whether there
is one at all; then a turn is a number that costs no further look.
"""

from __future__ import annotations


def turn(tenant: str, order: str) -> str:
    """SQL: in which turn a row comes; smaller ones come first.

    Args:
        tenant: SQL: whose row it is.
        order: SQL: the order of a tenant's own rows.
    """
    number = f"row_number() OVER (PARTITION BY {tenant} ORDER BY {order})"
    return f"""CASE WHEN EXISTS (SELECT 1 FROM tenants AS v WHERE v.weight <> 1)
        THEN ({number} - 1) / coalesce((SELECT v.weight FROM tenants AS v WHERE v.id = {tenant}), 1)
        ELSE {number} END"""
