"""`queue completion`: a script that makes a shell complete the command line of `queue`.

The words are written into the script, so that the shell completes at once: asking the command each time would
take the half second that Django needs to start.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from queuemgr.cli.subcommands import Options, add_parsers, load_all, option, subcommand

PLAIN = re.compile(r"[\w.:@%+/-]+", re.ASCII)
"""What needs no quotes in any shell."""

Words = Mapping[str, tuple[str, ...]]
"""What may follow a place in a command line: ` batch open` with a blank before each word."""


class Grammar(NamedTuple):
    """`words`: actions, options and values at a place; `values`: those after an option, as ` list|--view`;
    none where the option takes any text, for which the shell completes names of files."""

    words: Words
    values: Words


def grammar() -> Grammar:
    """Of all commands there are, those of the application among them."""
    parser = argparse.ArgumentParser(add_help=False)
    add_parsers(parser, load_all())
    words: dict[str, tuple[str, ...]] = {}
    values: dict[str, tuple[str, ...]] = {}
    for place, at in _places("", parser):
        words[place] = tuple(_words(at))
        for action in at._actions:
            for name in action.option_strings if action.nargs != 0 else ():
                values[f"{place}|{name}"] = _plain(action.choices)
    return Grammar(words, values)


def _places(place: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield place, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from _places(f"{place} {name}", below)


def _words(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if action.help == argparse.SUPPRESS:
            continue
        yield from _plain(action.option_strings or action.choices)


def _plain(choices: Iterable[Any] | None) -> tuple[str, ...]:
    return tuple(text for text in map(str, choices or ()) if PLAIN.fullmatch(text))


def bash(found: Grammar) -> str:
    return f"""\
# Completes `manage.py queue …`, and what else is bound to it: complete -o default -F _sluicegate_queue NAME
_sluicegate_queue() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" place="" in_queue="" words="" number word
  for ((number = 0; number < COMP_CWORD; number++)); do
    word="${{COMP_WORDS[number]}}"
    if [ -z "$in_queue" ]; then
      if [ "$word" = queue ]; then in_queue=1; fi
      continue
    fi
    case "$place $word" in
      {_either(found.words)}) place="$place $word" ;;
    esac
  done
  if [ -z "$in_queue" ]; then return; fi
  case "$place|${{COMP_WORDS[COMP_CWORD-1]}}" in
{_cases(found.values, "    ", "{}) words={} ;;")}
    *) case "$place" in
{_cases(found.words, "      ", "{}) words={} ;;")}
    esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _sluicegate_queue manage.py
"""


def zsh(found: Grammar) -> str:
    load = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"
    return load + bash(found)


def fish(found: Grammar) -> str:
    return f"""\
# Completes `manage.py queue …`, and what else is bound to it: complete -c NAME -a '(__sluicegate_queue)'
function __sluicegate_queue
  set -l place ''
  set -l in_queue ''
  set -l last ''
  for word in (commandline -opc)
    set last $word
    if test -z "$in_queue"
      if test "$word" = queue
        set in_queue 1
      end
      continue
    end
    switch "$place $word"
      case {_either(found.words, " ")}
        set place "$place $word"
    end
  end
  if test -z "$in_queue"
    return
  end
  switch "$place|$last"
{_cases(found.values, "    ", "case {}; string split -n ' ' -- {}; return")}
  end
  switch "$place"
{_cases(found.words, "    ", "case {}; string split -n ' ' -- {}")}
  end
end
complete -c manage.py -a '(__sluicegate_queue)'
"""


def _either(words: Words, between: str = "|") -> str:
    return between.join(f"'{place}'" for place in words if place)


def _cases(words: Words, indent: str, form: str) -> str:
    return "\n".join(
        indent + form.format(f"'{place}'", f"'{' '.join(said)}'") for place, said in words.items()
    )


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}


@subcommand("completion", option("shell", choices=SHELLS, help="for which shell"))
def completion(options: Options, out: Any) -> None:
    """print the script by which a shell completes commands, options and values

    queue completion bash > ~/.local/share/bash-completion/completions/manage.py
    queue completion zsh > ~/.manage-completion.zsh  # and `source` it in ~/.zshrc
    queue completion fish > ~/.config/fish/completions/manage.py.fish
    """
    out.write(SHELLS[options["shell"]](grammar()))
