"""The log of assets, which hides secrets from every handler."""

import logging

from servo.sdk.resources.redaction import hidden

_formatter = logging.Formatter()


class _RedactingFilter(logging.Filter):
    """Takes secrets out of a record before any handler sees it."""

    def filter(self, record: logging.LogRecord) -> bool:
        known = hidden()
        if known:
            record.msg, record.args = known.text(record.getMessage()), ()
            if record.exc_info:
                record.exc_text = known.text(_formatter.formatException(record.exc_info))
        return True


_discreet = _RedactingFilter()


def asset_log() -> logging.Logger:
    """The log behind `context.log`."""
    log = logging.getLogger("servo.asset")
    log.addFilter(_discreet)
    return log


LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"
