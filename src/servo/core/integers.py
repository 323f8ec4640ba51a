"""Numbers as they are stored: Parquet and SQL have sixty-four bits for them."""

from typing import Annotated

import msgspec

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""An integer from outside. A larger one does not decode, so it never reaches the fold."""
