"""What the code of a location declares."""

from servo.code.evaluator.loaded_location import LoadedLocation
from servo.code.evaluator.messages import CodeDescribed, DescribeCode, Refused
from servo.code.evaluator.refusals import refused
from servo.sdk.triggers.resolution import declared


def describe_code(loaded: LoadedLocation, question: DescribeCode) -> CodeDescribed | Refused:
    """The assets, schedules and sensors of the code, as a deployment has them."""
    del question
    try:
        return CodeDescribed(declared=declared(loaded.project))
    except Exception as error:  # noqa: BLE001 - partitions and conditions may be user code
        return refused(error)
