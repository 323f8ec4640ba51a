"""What an S3 server's answer means to the caller.

The client library tells its errors apart by kind, but gives 409 the kind of 412: with 409 ("a
conflicting conditional operation is in progress") nothing was written and nothing need exist, and
reading it as "the object exists" stops a healthy leader. So the status decides, and the kind only
where there is none.

Nothing the library says is passed on as it is. Its text holds URLs, and a URL can hold a password;
only the status, the error code and the operating system's reason are taken from it.
"""

import re

import obstore.exceptions

from servo.errors import Conflict, Invalid, NotFound, ServoError, Unavailable

FAILURES = (obstore.exceptions.BaseError, OSError, ValueError)

_STATUS = re.compile(r"returned non-2xx status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z0-9.]+)</Code>")
_REASON = re.compile(r'message: "([^"/@]{1,120})"')
_EXISTS = (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError)

_CREDENTIALS = "check the credentials (AWS_ACCESS_KEY_ID and so on) and their permissions"
_LATER = "check the endpoint and the network, and retry"

_WRONG_PLACE = {"NoSuchBucket", "InvalidBucketName", "AuthorizationHeaderMalformed"}
_NOT_AT_FAULT = {404, 408, 409, 412, 429}
_INSTANCE_CREDENTIALS = "169.254."  # where machines and containers are given theirs
_REDIRECTED = "Received redirect"  # to where the bucket is; the library does not follow
_NO_PLAIN_HTTP = "builder error"


def translated(error: Exception, doing: str, *, writing: bool) -> ServoError:
    """The error to raise instead of the library's."""
    text = str(error)
    status, code = int(_found(_STATUS, text) or 0), _found(_CODE, text)
    message = f"could not {doing}: {_reason(text, status, code)}"
    if remedy := _wrong_request(error, status, code):
        return Invalid(message, remedy=remedy)
    if status == 409:
        return Unavailable(message, remedy="retry", may_have_applied=False)
    if isinstance(error, _EXISTS) or status in {304, 412}:
        return Conflict(message, remedy="read the object and decide again")
    if isinstance(error, FileNotFoundError) or status == 404:
        return NotFound(message, remedy="check the key and the bucket")
    if _INSTANCE_CREDENTIALS in text:  # the request itself was never sent
        return Unavailable(message, remedy=_CREDENTIALS, may_have_applied=False)
    return Unavailable(message, remedy=_LATER, may_have_applied=writing)


def is_beyond_the_end(error: Exception) -> bool:
    """Whether a read failed only because the object is shorter."""
    return _found(_STATUS, str(error)) == "416"


def _wrong_request(error: Exception, status: int, code: str) -> str:
    """How to mend a request that will never work; '' if it is not at fault."""
    if code in _WRONG_PLACE or _REDIRECTED in str(error):
        return "check the bucket's name, region and endpoint"
    if status in {405, 501}:
        return "use a store that supports conditional writes"
    if 400 <= status < 500 and status not in _NOT_AT_FAULT and code != "RequestTimeout":
        return _CREDENTIALS
    if isinstance(error, ValueError):
        return "check the key and the options of the store"
    if not status and _NO_PLAIN_HTTP in str(error):
        return "use an https endpoint, or add allow_http=true"
    return ""


def _reason(text: str, status: int, code: str) -> str:
    if status:
        return f"the server answered {status} {code}".rstrip()
    return _found(_REASON, text) or "the request failed"


def _found(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match.group(1) if match else ""
