"""`servo completion`: shell completion of commands, options, asset keys and run ids."""

import click
from click.shell_completion import get_completion_class

from servo.cli.main import COMPLETE, PROGRAM, cli
from servo.errors import Internal


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(*, shell: str) -> None:
    """Print the completion script for a shell: commands, options, asset keys and run ids.

    \b
    bash: echo 'eval "$(servo completion bash)"' >> ~/.bashrc
    zsh:  echo 'eval "$(servo completion zsh)"' >> ~/.zshrc
    fish: servo completion fish > ~/.config/fish/completions/servo.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise Internal(f"no completion for {shell}", remedy="report this as a bug")
    made = kind(cli, {}, PROGRAM, COMPLETE)
    # Not its `source`, which asks the bash of this machine for its version.
    click.echo(made.source_template % made.source_vars())
