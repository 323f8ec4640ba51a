"""What every row has: the sequence number of the entry that last changed it."""

import msgspec


class Row(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One row of one table. Tenant and workspace are added where rows leave the process."""

    row_version: int
