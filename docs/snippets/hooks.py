"""Report the success or failure of an asset."""

from servo import HookContext, asset, build_hook_context, failure_hook, materialize, success_hook


@success_hook
def celebrate(context: HookContext) -> None:
    """Called after a success."""
    print(f"{context.asset_key} is {context.op_output_values['result']}")


@failure_hook
def complain(context: HookContext) -> None:
    """Called after a final failure."""
    print(f"{context.op.name} failed: {context.op_exception!r}")


@asset(hooks={celebrate, complain})
def revenue() -> int:
    """The revenue."""
    return 1649


_ = materialize([revenue])
complain(build_hook_context(op="revenue", op_exception=ValueError("no orders")))
