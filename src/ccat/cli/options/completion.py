"""Options of `ccat completion`."""

from argparse import ArgumentParser, RawDescriptionHelpFormatter

WHERE = """\
where shells look for it:
  ccat completion bash > ~/.local/share/bash-completion/completions/ccat
  ccat completion zsh > ~/.zfunc/_ccat       # with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
  ccat completion fish > ~/.config/fish/completions/ccat.fish
"""


def add_options(command: ArgumentParser) -> None:
    """Add the command's options."""
    command.formatter_class, command.epilog = RawDescriptionHelpFormatter, WHERE
    command.add_argument("shell", choices=["bash", "zsh", "fish"])
