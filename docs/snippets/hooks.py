"""Say something when an asset was made, or could not be."""

from servo import HookContext, asset, build_hook_context, failure_hook, materialize, success_hook


@success_hook
def celebrate(context: HookContext) -> None:
    """Called when it was made."""
    print(f"{context.asset_key} is {context.op_output_values['result']}")


@failure_hook
def complain(context: HookContext) -> None:
    """Called when it failed and is not tried again."""
    print(f"{context.op.name} failed: {context.op_exception!r}")


@asset(hooks={celebrate, complain})
def revenue() -> int:
    """A sum."""
    return 1649


_ = materialize([revenue])
complain(build_hook_context(op="revenue", op_exception=ValueError("no orders")))
