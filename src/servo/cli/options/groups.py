"""Groups of commands, such as `servo asset`."""

import click


class NounGroup(click.Group):
    """A group that names the command of `servo` itself if somebody looks for it here."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, root = args[0], ctx.find_root()
        outside = isinstance(root.command, click.Group) and root.command.list_commands(root)
        if name not in self.commands and outside and name in outside and not ctx.resilient_parsing:
            ctx.fail(f"No such command {name!r}. Did you mean '{root.info_name} {name}'?")
        return super().resolve_command(ctx, args)
