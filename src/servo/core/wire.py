"""Types of what comes from outside, with the bounds that decoding holds them to.

What is out of bounds does not decode, so it never reaches the fold. Parquet and SQL have sixty-four
bits for a number; ids end up in paths and names that others limit.
"""

from typing import Annotated

import msgspec

MAX_ID_BYTES = 1024

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ID_BYTES)]
MaybeId = Annotated[str, msgspec.Meta(max_length=MAX_ID_BYTES)]
"""An id, or the empty text for none."""
